//! The keeper over HTTP: what it answers, what it refuses, and that it remembers.

use sottovoce_keeper::{Config, RunningKeeper};
use sottovoce_privacy::keeper::{self, Answer, Entry, Fault, Opening, Upload, opener, seal, unmask};
use sottovoce_protocol::{FederationId, RoundId};
use std::path::Path;
use tokio::runtime::Runtime;

const VALUES: u32 = 40;

fn round(number: u64) -> keeper::Config {
    keeper::Config {
        federation: FederationId(1),
        round: RoundId(number),
        opener: opener(&[2; 32]),
        binding: [3; 32],
        length: VALUES,
        least: 3,
        signed: false,
    }
}

fn uploads(number: u64, key: &[u8; 32], devices: u32) -> Vec<Upload> {
    let one = |client: u32| {
        let mut secret = [number as u8; 32];
        secret[0] = client as u8;
        seal(&round(number), key, (client, secret), 0, None, vec![client + 1; VALUES as usize]).unwrap()
    };
    (0..devices).map(one).collect()
}

fn request(number: u64, uploads: &[Upload]) -> Vec<u8> {
    let entries = uploads.iter().cloned().map(Entry::from).collect();
    Opening { config: round(number), secret: [2; 32].into(), entries }.encode()
}

struct Scene {
    runtime: Runtime,
    running: Option<RunningKeeper>,
}

impl Scene {
    fn new(folder: &Path, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config { listen: "127.0.0.1:0".to_owned(), data: folder.join("keeper"), ..Config::default() };
        change(&mut config);
        let runtime = Runtime::new().unwrap();
        let running = runtime.block_on(RunningKeeper::start(&config)).unwrap();
        Self { runtime, running: Some(running) }
    }

    fn running(&self) -> &RunningKeeper {
        self.running.as_ref().unwrap()
    }

    fn post(&self, body: &[u8]) -> (u16, Vec<u8>) {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        let mut answer = agent.post(format!("http://{}/v1/open", self.running().address)).send(body).unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_vec().unwrap())
    }

    fn opened(&self, body: &[u8]) -> Vec<u32> {
        let (status, bytes) = self.post(body);
        let Ok(Answer::Opened(masks)) = Answer::decode(&bytes) else { panic!("{status}") };
        masks
    }

    fn refused(&self, body: &[u8]) -> keeper::Refused {
        let (status, bytes) = self.post(body);
        let Ok(Answer::Refused(refused)) = Answer::decode(&bytes) else { panic!("{status}") };
        assert_eq!(status, 409);
        refused
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.runtime.block_on(self.running.take().unwrap().stop());
    }
}

#[test]
fn opens_a_round_once_and_remembers_it_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let scene = Scene::new(folder.path(), |_| ());
    let key = scene.running().public;
    let came = uploads(0, &key, 5);
    let masks = scene.opened(&request(0, &came));
    let mut sum = vec![0u32; VALUES as usize + 1];
    came.iter().for_each(|upload| sum.iter_mut().zip(&upload.words).for_each(|(a, b)| *a = a.wrapping_add(*b)));
    assert_eq!(unmask(sum, &masks, 5), Some(vec![15; VALUES as usize]));
    assert!(scene.refused(&request(0, &came[1..])).why.contains("opened before"));
    drop(scene);
    let scene = Scene::new(folder.path(), |_| ());
    assert_eq!((scene.running().public, scene.running().rounds), (key, 1));
    assert_eq!(scene.opened(&request(0, &came)), masks);
    assert!(scene.refused(&request(0, &came[..4])).why.contains("opened before"));
    // A seed of that round, sealed for the next one.
    let mut next = uploads(1, &key, 5);
    let mut secret = [0; 32];
    secret[0] = 2;
    next[2] = seal(&round(1), &key, (2, secret), 0, None, vec![1; VALUES as usize]).unwrap();
    assert_eq!(scene.refused(&request(1, &next)).faults, [(2, Fault::Spent)]);
    next.remove(2);
    scene.opened(&request(1, &next));
}

#[test]
fn answers_junk_and_strangers_without_an_opening() {
    let folder = tempfile::tempdir().unwrap();
    let scene = Scene::new(folder.path(), |config| config.openers = [[9; 32]].into());
    let body = request(0, &uploads(0, &scene.running().public, 5));
    assert_eq!(scene.post(&body).0, 403);
    assert_eq!(scene.post(&body[..body.len() - 1]).0, 400);
    assert_eq!(scene.post(b"").0, 400);
    let address = scene.running().address;
    let key = ureq::get(format!("http://{address}/v1/key")).call().unwrap().body_mut().read_to_string().unwrap();
    let public: String = scene.running().public.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(key.trim(), public);
    assert!(ureq::get(format!("http://{address}/v1/open")).call().is_err());
    assert!(ureq::get(format!("http://{address}/elsewhere")).call().is_err());
    assert_eq!(scene.running().rounds, 0);
}

#[test]
fn keeps_to_a_floor_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let scene = Scene::new(folder.path(), |config| config.least = 6);
    let came = uploads(0, &scene.running().public, 5);
    assert!(scene.refused(&request(0, &came)).why.contains("no fewer than 6"));
}
