//! A server of the S3 protocol on a free port, over a folder.

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use std::path::Path;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const KEY: &str = "operator";
const SECRET: &str = "a secret of the test";

/// Runs until it is dropped.
pub(crate) struct Server {
    port: u16,
    task: JoinHandle<()>,
}

impl Server {
    /// Buckets are the folders in this one.
    pub(crate) async fn start(folder: &Path) -> Self {
        let mut service = S3ServiceBuilder::new(FileSystem::new(folder).unwrap());
        service.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let service = service.build();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let service = service.clone();
                tokio::spawn(async move {
                    let connections = Builder::new(TokioExecutor::new());
                    let _ = connections.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        Self { port, task }
    }

    /// What an operator would set to use it.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        vec![
            set("AWS_ENDPOINT_URL", &format!("http://127.0.0.1:{}", self.port)),
            set("AWS_REGION", "eu-south-1"),
            set("AWS_ACCESS_KEY_ID", KEY),
            set("AWS_SECRET_ACCESS_KEY", SECRET),
            set("AWS_ALLOW_HTTP", "true"),
        ]
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}
