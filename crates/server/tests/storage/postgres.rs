//! PostgreSQL: lost connections, TLS, other layouts.

use crate::conformance::contents;
use crate::database::TestDatabase;
use crate::fixtures::{create, upload, with_open_round};
use crate::proxy::{Plan, Proxy};
use crate::reference::Reference;
use sottovoce_server::storage::{Postgres, Sender, Storage, StorageError, open};
use std::time::{Duration, Instant};

/// Host and port of the database.
fn address(database: &TestDatabase) -> String {
    let (_, rest) = database.url.split_once('@').unwrap();
    rest.split('/').next().unwrap().to_owned()
}

/// The same database through a proxy.
fn through(database: &TestDatabase, port: u16) -> String {
    database.url.replace(&address(database), &format!("127.0.0.1:{port}"))
}

fn commits_once(plan: Plan) {
    TestDatabase::with_postgres(|database| {
        let proxy = Proxy::to(&address(database));
        let storage = open(&through(database, proxy.port)).unwrap();
        let mut reference = Reference::default();
        for changes in [with_open_round(), vec![upload(0, 0, 1), upload(0, 0, 0)], vec![upload(0, 0, 2)]] {
            proxy.plan(plan);
            storage.commit(&changes).unwrap();
            reference.commit(&changes).unwrap();
            assert_eq!(contents(&*storage), reference);
        }
        drop(storage);
        assert_eq!(contents(&*database.open()), reference);
    });
}

#[test]
fn retries_a_commit_that_did_not_arrive() {
    commits_once(Plan::CutBefore);
}

#[test]
fn does_not_repeat_a_commit_whose_answer_was_lost() {
    commits_once(Plan::CutAfter);
}

#[test]
fn ends_a_hanging_session() {
    commits_once(Plan::HangAfter);
}

#[test]
fn distinguishes_rejection_from_lost_connection() {
    TestDatabase::with_postgres(|database| {
        let proxy = Proxy::to(&address(database));
        let storage = open(&through(database, proxy.port)).unwrap();
        storage.commit(&with_open_round()).unwrap();
        proxy.plan(Plan::CutAfter);
        storage.commit(&[upload(0, 0, 0)]).unwrap();
        assert!(matches!(storage.commit(&[upload(0, 0, 0)]), Err(StorageError::Rejected { .. })));
        storage.commit(&[upload(0, 0, 1)]).unwrap();
    });
}

/// If the database stays unreachable.
#[test]
fn unresolved_commit_is_uncertain() {
    TestDatabase::with_postgres(|database| {
        let proxy = Proxy::to(&address(database));
        let storage = Postgres::open(&through(database, proxy.port)).unwrap();
        let storage = storage.with_reconnect_timeout(Duration::from_millis(300));
        storage.commit(&with_open_round()).unwrap();
        proxy.plan(Plan::CutForGood);
        let error = storage.commit(&[upload(0, 0, 0)]).unwrap_err();
        assert!(matches!(error, StorageError::Uncertain(_)), "{error:?}");
        proxy.plan(Plan::Pass);
        let error = storage.commit(&[upload(0, 0, 1)]).unwrap_err();
        assert!(matches!(error, StorageError::Uncertain(_)), "{error:?}");
        drop(storage);
        let received = database.open().load().unwrap().rounds[0].received.clone();
        assert!(received.iter().map(|receipt| receipt.sender).eq([Sender::Device(0)]));
    });
}

#[test]
fn reconnects_after_the_database_ends_connections() {
    TestDatabase::with_postgres(|database| {
        let storage = database.open();
        storage.commit(&with_open_round()).unwrap();
        storage.load().unwrap();
        let schema = database.url.split("%3D").last().unwrap();
        let end = format!(
            "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
             WHERE l.locktype = 'advisory' AND a.pid <> pg_backend_pid()
             AND ((l.classid::BIGINT << 32) | l.objid::BIGINT) = hashtextextended('sottovoce in {schema}', 0)"
        );
        database.execute(&end);
        storage.commit(&[upload(0, 0, 0)]).unwrap();
        storage.secret().unwrap();
        assert_eq!(contents(&*storage).bodies.len(), 1);
    });
}

#[test]
fn notices_changes_by_other_programs() {
    TestDatabase::with_postgres(|database| {
        let storage = database.open();
        storage.commit(&with_open_round()).unwrap();
        database.execute("UPDATE server SET commits = commits + 1");
        let error = storage.commit(&[upload(0, 0, 0)]).unwrap_err();
        assert!(error.to_string().contains("another program"), "{error}");
        assert_eq!(contents(&*storage).bodies.len(), 0);
    });
}

#[test]
fn rejects_newer_layouts() {
    TestDatabase::with_postgres(|database| {
        database.open().commit(&[create(0)]).unwrap();
        database.execute("UPDATE sottovoce_layout SET layout = layout + 7");
        let error = database.try_open().err().unwrap();
        assert!(matches!(error, StorageError::Newer { found, known, .. } if found == known + 7), "{error:?}");
        database.execute("UPDATE sottovoce_layout SET layout = layout - 7");
        assert_eq!(database.open().load().unwrap().federations.len(), 1);
    });
}

#[test]
fn keeps_tables_of_other_programs() {
    TestDatabase::with_postgres(|database| {
        database.execute("CREATE TABLE device (mine TEXT); INSERT INTO device VALUES ('x')");
        let error = database.try_open().err().unwrap();
        assert!(error.to_string().contains("\"device\" already exists"), "{error}");
        database.execute("SELECT mine FROM device; DROP TABLE device");
        database.open();
    });
}

#[test]
fn unreachable_address_fails_soon_and_is_named() {
    let began = Instant::now();
    let error = open("postgres://ada:geheim@127.0.0.1:1/town").err().unwrap().to_string();
    assert!(error.contains("127.0.0.1:1/town") && !error.contains("geheim"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(20));
}

mod tls {
    use super::{address, contents, through};
    use crate::database::TestDatabase;
    use crate::fixtures::with_open_round;
    use crate::reference::Reference;
    use rustls::pki_types::PrivateKeyDer;
    use sottovoce_server::storage::open;
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::TlsAcceptor;

    /// Terminates TLS in front of a PostgreSQL server without it.
    async fn serve(listener: TcpListener, acceptor: TlsAcceptor, database: String) {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let (acceptor, database) = (acceptor.clone(), database.clone());
            tokio::spawn(async move {
                let mut request = [0; 8];
                client.read_exact(&mut request).await.unwrap();
                assert_eq!(request, [0, 0, 0, 8, 4, 210, 22, 47], "the code that asks for TLS");
                client.write_all(b"S").await.unwrap();
                if let Ok(mut client) = acceptor.accept(client).await {
                    let mut server = TcpStream::connect(database).await.unwrap();
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                }
            });
        }
    }

    #[test]
    fn tls_verifies_the_certificate() {
        TestDatabase::with_postgres(|database| {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let roots = folder.path().join("roots.pem");
            std::fs::write(&roots, made.cert.pem()).unwrap();
            let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = rustls::ServerConfig::builder_with_provider(provider);
            let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
            let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
            let port = listener.local_addr().unwrap().port();
            runtime.spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), address(database)));

            let asked = format!("{}&sslmode=verify-full", through(database, port));
            let trusted = format!("{asked}&sslrootcert={}", roots.display());
            let named = trusted.replace("127.0.0.1", "localhost");
            let storage = open(&named).unwrap();
            storage.commit(&with_open_round()).unwrap();
            let mut reference = Reference::default();
            reference.commit(&with_open_round()).unwrap();
            assert_eq!(contents(&*storage), reference);
            drop(storage);
            for (url, why) in [(trusted, "another name"), (asked.replace("127.0.0.1", "localhost"), "not trusted")] {
                let error = open(&url).err().expect(why).to_string();
                assert!(error.contains("certificate"), "{why}: {error}");
            }
        });
    }
}
