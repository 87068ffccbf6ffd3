//! Clicks and tables in a store of the S3 protocol: the same tables as in a folder.

mod common;

use common::{World, contents, first_day, history};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use std::path::Path;
use std::process::{Command, Output};
use tokio::net::TcpListener;

const KEY: &str = "operator";
const SECRET: &str = "a secret of the test";

/// A server on a free port, whose buckets are the folders in this one; it ends with the test.
async fn serve(folder: &Path) -> u16 {
    let mut service = S3ServiceBuilder::new(FileSystem::new(folder).unwrap());
    service.set_auth(SimpleAuth::from_single(KEY, SECRET));
    let service = service.build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let service = service.clone();
            tokio::spawn(async move {
                let connections = Builder::new(TokioExecutor::new());
                let _ = connections.serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    port
}

async fn run(port: u16, secret: &'static str, arguments: Vec<String>) -> Output {
    let command = move || {
        Command::new(env!("CARGO_BIN_EXE_sottovoce-pipeline"))
            .args(arguments)
            .env("AWS_ENDPOINT", format!("http://127.0.0.1:{port}"))
            .env("AWS_REGION", "eu-south-1")
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", secret)
            .env("AWS_ALLOW_HTTP", "true")
            .output()
            .unwrap()
    };
    tokio::task::spawn_blocking(command).await.unwrap()
}

fn copy(from: &Path, to: &Path) {
    for (name, bytes) in contents(from) {
        let place = to.join(name);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, bytes).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_holds_the_same_tables_as_a_folder() {
    let world = World::with(&history(2));
    let store = world.folder.path().join("store");
    copy(&world.clicks(), &store.join("logs/clicks"));
    std::fs::create_dir_all(store.join("tables")).unwrap();
    let tree = world.folder.path().join("tree.tsv");
    std::fs::write(&tree, common::TREE).unwrap();
    let port = serve(&store).await;
    let interests = |clicks: String, tables: String, day: u64| {
        vec![
            "interests".to_owned(),
            format!("--clicks={clicks}"),
            format!("--tables={tables}"),
            format!("--taxonomy={}", tree.display()),
            format!("--day={}", first_day().plus(day)),
            "--buckets=2".to_owned(),
        ]
    };
    for day in 0..2 {
        let here = interests(world.clicks().display().to_string(), world.tables().display().to_string(), day);
        let there = interests("s3://logs/clicks".to_owned(), "s3://tables/daily".to_owned(), day);
        for arguments in [here, there] {
            let done = run(port, SECRET, arguments).await;
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
    }
    let written = contents(&store.join("tables/daily"));
    assert!(written.len() > 10 && written == contents(&world.tables()), "{:?}", written.keys());
    let wrong = interests("s3://logs/clicks".to_owned(), "s3://tables/other".to_owned(), 0);
    let failed = run(port, "another secret", wrong).await;
    let error = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(!failed.status.success() && error.contains("s3://tables/other"), "{error}");
}
