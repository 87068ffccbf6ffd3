//! PostgreSQL: lost connections, TLS, other layouts.

use crate::conformance::held;
use crate::model::Model;
use crate::place::Place;
use crate::proxy::{Plan, Proxy};
use crate::scene::{found, under_way, upload};
use sottovoce_server::storage::{Postgres, Storage, StorageError, open};
use std::time::{Duration, Instant};

/// Host and port of the database.
fn database(place: &Place) -> String {
    let (_, rest) = place.url.split_once('@').unwrap();
    rest.split('/').next().unwrap().to_owned()
}

/// The same database through a proxy.
fn through(place: &Place, port: u16) -> String {
    place.url.replace(&database(place), &format!("127.0.0.1:{port}"))
}

fn a_commit_is_made_once_whatever_happens(plan: Plan) {
    Place::with_postgres(|place| {
        let proxy = Proxy::to(&database(place));
        let storage = open(&through(place, proxy.port)).unwrap();
        let mut model = Model::default();
        for changes in [under_way(), vec![upload(0, 0, 1), upload(0, 0, 0)], vec![upload(0, 0, 2)]] {
            proxy.plan(plan);
            storage.commit(&changes).unwrap();
            model.commit(&changes).unwrap();
            assert_eq!(held(&*storage), model);
        }
        drop(storage);
        assert_eq!(held(&*place.open()), model);
    });
}

#[test]
fn a_commit_that_did_not_arrive_is_made_again() {
    a_commit_is_made_once_whatever_happens(Plan::CutBefore);
}

#[test]
fn a_commit_whose_answer_was_lost_is_not_made_twice() {
    a_commit_is_made_once_whatever_happens(Plan::CutAfter);
}

#[test]
fn a_session_that_hangs_is_ended_first() {
    a_commit_is_made_once_whatever_happens(Plan::HangAfter);
}

#[test]
fn a_refusal_is_told_apart_from_a_lost_connection() {
    Place::with_postgres(|place| {
        let proxy = Proxy::to(&database(place));
        let storage = open(&through(place, proxy.port)).unwrap();
        storage.commit(&under_way()).unwrap();
        proxy.plan(Plan::CutAfter);
        storage.commit(&[upload(0, 0, 0)]).unwrap();
        assert!(matches!(storage.commit(&[upload(0, 0, 0)]), Err(StorageError::Refused { .. })));
        storage.commit(&[upload(0, 0, 1)]).unwrap();
    });
}

/// When the database is away for long, nobody pretends to know.
#[test]
fn a_commit_whose_fate_cannot_be_found_out_is_uncertain() {
    Place::with_postgres(|place| {
        let proxy = Proxy::to(&database(place));
        let storage = Postgres::open(&through(place, proxy.port)).unwrap();
        let storage = storage.with_patience(Duration::from_millis(300));
        storage.commit(&under_way()).unwrap();
        proxy.plan(Plan::CutForGood);
        let error = storage.commit(&[upload(0, 0, 0)]).unwrap_err();
        assert!(matches!(error, StorageError::Uncertain { .. }), "{error:?}");
        proxy.plan(Plan::Pass);
        let error = storage.commit(&[upload(0, 0, 1)]).unwrap_err();
        assert!(matches!(error, StorageError::Uncertain { .. }), "{error:?}");
        drop(storage);
        let received = place.open().load().unwrap().rounds[0].received.clone();
        assert_eq!(received.iter().map(|receipt| receipt.device).collect::<Vec<_>>(), [0]);
    });
}

#[test]
fn connections_ended_by_the_database_are_had_again() {
    Place::with_postgres(|place| {
        let storage = place.open();
        storage.commit(&under_way()).unwrap();
        storage.load().unwrap();
        let schema = place.url.split("%3D").last().unwrap();
        let end = format!(
            "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
             WHERE l.locktype = 'advisory' AND a.pid <> pg_backend_pid()
             AND ((l.classid::BIGINT << 32) | l.objid::BIGINT) = hashtextextended('sottovoce in {schema}', 0)"
        );
        place.meddle(&end);
        storage.commit(&[upload(0, 0, 0)]).unwrap();
        storage.ping().unwrap();
        assert_eq!(held(&*storage).bodies.len(), 1);
    });
}

#[test]
fn somebody_else_who_wrote_is_noticed() {
    Place::with_postgres(|place| {
        let storage = place.open();
        storage.commit(&under_way()).unwrap();
        place.meddle("UPDATE server SET commits = commits + 1");
        let error = storage.commit(&[upload(0, 0, 0)]).unwrap_err();
        assert!(error.to_string().contains("somebody else"), "{error}");
        assert_eq!(held(&*storage).bodies.len(), 0);
    });
}

#[test]
fn a_newer_layout_is_said_and_left_alone() {
    Place::with_postgres(|place| {
        place.open().commit(&[found(0)]).unwrap();
        place.meddle("UPDATE sottovoce_layout SET layout = 9");
        let error = place.try_open().err().unwrap();
        assert!(matches!(error, StorageError::Newer { found: 9, known: 4, .. }), "{error:?}");
        place.meddle("UPDATE sottovoce_layout SET layout = 4");
        assert_eq!(place.open().load().unwrap().federations.len(), 1);
    });
}

#[test]
fn tables_of_somebody_else_are_left_alone() {
    Place::with_postgres(|place| {
        place.meddle("CREATE TABLE device (mine TEXT); INSERT INTO device VALUES ('x')");
        let error = place.try_open().err().unwrap();
        assert!(error.to_string().contains("\"device\" already exists"), "{error}");
        place.meddle("SELECT mine FROM device; DROP TABLE device");
        place.open();
    });
}

#[test]
fn an_address_where_nothing_is_fails_soon_and_names_it() {
    let began = Instant::now();
    let error = open("postgres://ada:geheim@127.0.0.1:1/town").err().unwrap().to_string();
    assert!(error.contains("127.0.0.1:1/town") && !error.contains("geheim"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(20));
}

mod tls {
    use super::{database, held, through};
    use crate::model::Model;
    use crate::place::Place;
    use crate::scene::under_way;
    use rustls::pki_types::PrivateKeyDer;
    use sottovoce_server::storage::open;
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::TlsAcceptor;

    /// Speaks TLS as a PostgreSQL server does, for one that does not.
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
    fn tls_is_used_where_it_is_asked_for_and_the_certificate_must_be_good() {
        Place::with_postgres(|place| {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let roots = folder.path().join("roots.pem");
            std::fs::write(&roots, made.cert.pem()).unwrap();
            let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = rustls::ServerConfig::builder_with_provider(provider);
            let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
            let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
            let port = listener.local_addr().unwrap().port();
            runtime.spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), database(place)));

            let asked = format!("{}&sslmode=verify-full", through(place, port));
            let trusted = format!("{asked}&sslrootcert={}", roots.display());
            let named = trusted.replace("127.0.0.1", "localhost");
            let storage = open(&named).unwrap();
            storage.commit(&under_way()).unwrap();
            let mut model = Model::default();
            model.commit(&under_way()).unwrap();
            assert_eq!(held(&*storage), model);
            drop(storage);
            for (url, why) in
                [(trusted, "another name"), (asked.replace("127.0.0.1", "localhost"), "not trusted")]
            {
                let error = open(&url).err().expect(why).to_string();
                assert!(error.contains("certificate"), "{why}: {error}");
            }
        });
    }
}
