//! An attack on segment ids: a server that records everything tries to join those of one device over rotations.

use crate::town::{Fleet, NAME, Town, agreed, config, seconds};
use sottovoce_device::{Request, Response, Transport, TransportError};
use sottovoce_privacy::tokens::{Token, from_hex};
use sottovoce_server::federation::{AudienceConfig, AudienceError, Federation};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;

const PEOPLE: usize = 120;
const ROTATIONS: u64 = 6;
const DAY: u64 = 86_400;

/// What the server saw of a report.
#[derive(Clone, Debug)]
struct Seen {
    rotation: u64,
    /// Part of the rotation that had passed.
    moment: f64,
    nullifier: [u8; 32],
    segment: [u8; 16],
    /// For the evaluation only.
    person: usize,
}

/// The server at a time of our choice: requests about audiences go to the federation as they are.
struct Recording<'a> {
    federation: Arc<Federation>,
    runtime: Handle,
    now: AtomicU64,
    person: AtomicU64,
    seen: &'a Mutex<Vec<Seen>>,
}

impl Transport for Recording<'_> {
    fn send(&self, request: &Request) -> Result<Response, TransportError> {
        let now = self.now.load(Ordering::Relaxed) * 1000;
        let path = request.path.strip_prefix(&format!("/v1/federations/{NAME}/")).unwrap();
        let parts: Vec<&str> = path.split('/').collect();
        let person = self.person.load(Ordering::Relaxed) as usize;
        let answer = |status: u16, body: Vec<u8>| Ok(Response { status, headers: Vec::new(), body });
        match parts[..] {
            ["audiences"] => {
                assert!(request.bearer.is_none(), "who asks for the list is nobody's business");
                answer(200, serde_json::to_vec(&self.federation.audience_list(now).unwrap()).unwrap())
            }
            ["audience-tokens", rotation] => {
                let rotation = rotation.parse().unwrap();
                let work = self.federation.issue_audience_tokens(person as u32, rotation, &request.body, now);
                answer(200, self.runtime.block_on(work).unwrap())
            }
            ["audiences", audience, "segments", rotation] => {
                assert!(request.bearer.is_none() && request.idempotency_key.is_none());
                let (audience, rotation) = (audience.parse().unwrap(), rotation.parse().unwrap());
                let token = from_hex(request.round_token.as_ref().unwrap()).unwrap();
                let token = Token::from_bytes(&token).unwrap();
                let work = self.federation.receive_report((audience, rotation), &token, &request.body, now);
                match self.runtime.block_on(work) {
                    Ok(new) => assert!(new),
                    Err(AudienceError::Unknown(_)) => return answer(404, Vec::new()),
                    Err(error) => panic!("{error}"),
                }
                let moment = (now / 1000 % DAY) as f64 / DAY as f64;
                let segment = request.body[..].try_into().unwrap();
                let seen = Seen { rotation, moment, nullifier: token.nullifier(), segment, person };
                self.seen.lock().unwrap().push(seen);
                answer(201, Vec::new())
            }
            _ => answer(204, Vec::new()),
        }
    }
}

/// Bits in which two ids differ.
fn distance(one: &[u8], other: &[u8]) -> f64 {
    one.iter().zip(other).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>().into()
}

/// How often two reports of one device in neighbouring rotations look more alike than those of two devices: 0.5 is
/// chance.
fn joins(seen: &[Seen], unlike: impl Fn(&Seen, &Seen) -> f64) -> f64 {
    let (mut wins, mut count) = (0.0, 0.0);
    let next = |one: &Seen| {
        seen.iter().filter({
            let rotation = one.rotation + 1;
            move |other| other.rotation == rotation
        })
    };
    for one in seen {
        let Some(own) = next(one).find(|other| other.person == one.person) else { continue };
        for other in next(one).filter(|other| other.person != one.person) {
            let (same, different) = (unlike(one, own), unlike(one, other));
            wins += if same < different { 1.0 } else { f64::from(u8::from(same == different)) / 2.0 };
            count += 1.0;
        }
    }
    wins / count
}

#[test]
fn segment_ids_cannot_be_joined_over_rotations() {
    let folder = tempfile::tempdir().unwrap();
    let town = Town::open(folder.path());
    let audiences = AudienceConfig {
        k: 50,
        epsilon: 3.0,
        budget: 10.0,
        advertiser_budget: 10.0,
        days: 60,
        ..AudienceConfig::default()
    };
    town.create(config(PEOPLE as u32, &audiences));
    let histories = vec![vec!["skiing", "opera"]; PEOPLE];
    let fleet = Fleet::new(&town, &histories, &agreed(50, 100.0));
    fleet.train(&town);
    let advertiser = town.advertiser(None);
    advertiser.create("ski fans", &["skiing"], "any", 0.9);
    assert_eq!(fleet.measure(&advertiser, 0)["state"], "done");
    let seen = Mutex::new(Vec::new());
    let first = seconds().as_secs() / DAY + 1;
    let server = Recording {
        federation: town.federation(),
        runtime: town.runtime.handle().clone(),
        now: AtomicU64::new(0),
        person: AtomicU64::new(0),
        seen: &seen,
    };
    // Each device is awake every quarter of an hour.
    for now in (first * DAY..(first + ROTATIONS) * DAY + 1800).step_by(900) {
        for (person, device) in fleet.devices.iter().enumerate() {
            server.now.store(now, Ordering::Relaxed);
            server.person.store(person as u64, Ordering::Relaxed);
            device.lock().unwrap().step(&server, Duration::from_secs(now)).unwrap();
        }
    }
    let mut seen = seen.into_inner().unwrap();
    seen.retain(|one| one.rotation < first + ROTATIONS);
    // At most one report a rotation, whatever else happens, and no id twice.
    let mut of: BTreeMap<(usize, u64), usize> = BTreeMap::new();
    seen.iter().for_each(|one| *of.entry((one.person, one.rotation)).or_default() += 1);
    assert!(of.values().all(|&count| count == 1));
    let (members, rotations) = (of.keys().filter(|(_, rotation)| *rotation == first).count(), ROTATIONS as usize);
    assert!(members > 90 && seen.len() == members * rotations, "{members} of {PEOPLE}, {}", seen.len());
    let attacks = [
        ("segment ids", joins(&seen, |a, b| distance(&a.segment, &b.segment))),
        ("nullifiers", joins(&seen, |a, b| distance(&a.nullifier, &b.nullifier))),
        ("moments", joins(&seen, |a, b| (a.moment - b.moment).abs())),
    ];
    for (what, found) in attacks {
        assert!((found - 0.5).abs() < 0.03, "{what}: {found}");
    }
    // The attack works where it can: on ids that stay, and on devices that keep their hours.
    let careless = |one: &Seen| {
        let own = |other: &&Seen| other.person == one.person && other.rotation == first;
        let Seen { moment, segment, .. } = seen.iter().find(own).unwrap().clone();
        Seen { moment, segment, ..one.clone() }
    };
    let careless: Vec<Seen> = seen.iter().map(careless).collect();
    assert!(joins(&careless, |a, b| distance(&a.segment, &b.segment)) > 0.99);
    assert!(joins(&careless, |a, b| (a.moment - b.moment).abs()) > 0.95);
    town.stop();
}

/// The same answer is given however often the question is asked anew: averaging over rotations, or over audiences with
/// new numbers, does not wash the randomised response out.
#[test]
fn asking_again_gets_the_same_answer() {
    let folder = tempfile::tempdir().unwrap();
    let town = Town::open(folder.path());
    let audiences =
        AudienceConfig { k: 3, epsilon: 5.0, budget: 100.0, advertiser_budget: 100.0, ..AudienceConfig::default() };
    town.create(config(40, &audiences));
    let fleet = Fleet::new(&town, &vec![vec!["skiing", "opera"]; 40], &agreed(3, 100.0));
    fleet.train(&town);
    let advertiser = town.advertiser(None);
    let mut answers = Vec::new();
    for round in 0..3 {
        let name = format!("attempt {round}");
        // Back to the server's time.
        for device in &fleet.devices {
            device.lock().unwrap().join_audiences().unwrap();
        }
        advertiser.create(&name, &["skiing"], "any", 0.9);
        assert_eq!(fleet.measure(&advertiser, round)["state"], "done");
        let seen = Mutex::new(Vec::new());
        let server = Recording {
            federation: town.federation(),
            runtime: town.runtime.handle().clone(),
            now: AtomicU64::new(0),
            person: AtomicU64::new(0),
            seen: &seen,
        };
        let day = seconds().as_secs() / DAY + 1 + 2 * round;
        // With an hour more, for reports that were due in the last one.
        for now in (day * DAY..=(day + 1) * DAY).step_by(3600) {
            for (person, device) in fleet.devices.iter().enumerate() {
                server.now.store(now, Ordering::Relaxed);
                server.person.store(person as u64, Ordering::Relaxed);
                device.lock().unwrap().step(&server, Duration::from_secs(now)).unwrap();
            }
        }
        let seen = seen.into_inner().unwrap();
        let of_day = seen.iter().filter(|one| one.rotation == day);
        let mut people: Vec<usize> = of_day.map(|one| one.person).collect();
        people.sort_unstable();
        people.dedup();
        answers.push(people);
        advertiser.call(sottovoce_device::Method::Delete, &format!("/audiences/{round}"), None);
    }
    assert!(answers[0].len() > 25 && answers[0].len() < 40, "some say the opposite: {}", answers[0].len());
    assert!(answers.iter().all(|people| *people == answers[0]), "{answers:?}");
    // And costs nothing more.
    let device = fleet.devices[0].lock().unwrap();
    let reports = device.audience_account().0.iter().filter(|spent| spent.what.starts_with("whether")).count();
    assert_eq!(reports, 1);
    drop(device);
    town.stop();
}
