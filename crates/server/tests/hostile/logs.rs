//! Logs name no device.

use crate::scene::{Scene, item};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

#[test]
fn logs_omit_devices_addresses_secrets_and_items() {
    let written = Log::default();
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
    tracing::subscriber::set_global_default(log.with_writer(written.clone()).finish()).unwrap();
    let scene = Scene::new();
    scene.host.call("POST", "/v1/federations/films/rounds/0/updates", &scene.awaited.credential, b"nonsense");
    scene.host.answer(&scene.awaited);
    scene.host.call("POST", "/v1/federations/films/check-in", &scene.removed, b"");
    scene.host.call("GET", "/v1/operator/federations", &scene.observer, b"");
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    let phones = [&scene.answered, &scene.awaited, &scene.idle, &scene.revoked, &scene.withdrawn, &scene.singer];
    let mut secrets: Vec<&str> = phones.iter().map(|phone| phone.credential.as_str()).collect();
    secrets.extend([&scene.host.admin, &scene.observer, &scene.enrolment, &scene.removed].map(String::as_str));
    for secret in secrets {
        assert!(!text.contains(&secret[4..]), "a secret is logged");
    }
    for word in ["svd_", "sve_", "svo_", "device=", "number=", "127.0.0.1", "key-1", &item(1)[..7], "Title 1"] {
        let line = text.lines().find(|line| line.contains(word));
        assert!(line.is_none(), "`{word}` is logged: {}", line.unwrap_or_default());
    }
    for word in ["federation created", "round opened", "federation=films"] {
        assert!(text.contains(word), "`{word}` is not logged");
    }
}
