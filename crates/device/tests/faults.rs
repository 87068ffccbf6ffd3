//! Whatever fails, each update counts once and each private model advances once a round.

mod common;

use common::{Fault, Server, SharedStore, enrolment, go, options};
use proptest::prelude::{Strategy, any, prop, prop_assert_eq, proptest};
use sottovoce_device::{Device, Items, Membership, NextStep, Store, StoreError, WaitReason};
use sottovoce_protocol::SharedModel;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ROUNDS: u64 = 3;
const DEVICES: u64 = 2;

/// Updates by device and round, and private models.
type Outcome = (BTreeMap<(u64, u64), Vec<u8>>, Vec<Vec<f32>>);

/// A store that fails at given commits, before or after it has kept them.
#[derive(Clone, Default)]
struct FailingStore {
    inner: SharedStore,
    /// One a commit to come: whether it fails, and whether it keeps all the same.
    plan: Arc<Mutex<Vec<Option<bool>>>>,
}

impl Store for FailingStore {
    fn load(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.load()
    }

    fn commit(&mut self, state: &[u8]) -> Result<(), StoreError> {
        let mut plan = self.plan.lock().unwrap();
        let fails = if plan.is_empty() { None } else { plan.remove(0) };
        if fails != Some(false) {
            self.inner.commit(state)?;
        }
        fails.map_or(Ok(()), |_| Err(StoreError::Other("killed".to_owned())))
    }

    fn load_model(&mut self) -> Result<Option<Arc<SharedModel>>, StoreError> {
        self.inner.load_model()
    }

    fn save_model(&mut self, model: &Arc<SharedModel>) -> Result<(), StoreError> {
        self.inner.save_model(model)
    }

    fn clear_downloads(&mut self) -> Result<(), StoreError> {
        self.inner.clear_downloads()
    }

    fn load_catalog(&mut self) -> Result<Option<Arc<Items>>, StoreError> {
        self.inner.load_catalog()
    }

    fn save_catalog(&mut self, items: &Arc<Items>) -> Result<(), StoreError> {
        self.inner.save_catalog(items)
    }
}

/// Runs a federation to its end; a device whose store fails is thrown away and opened anew, as after a kill.
fn run(faults: Vec<Option<Fault>>, kills: &[Option<bool>]) -> Outcome {
    let server = Server::new();
    let stores: Vec<FailingStore> = (0..DEVICES).map(|_| FailingStore::default()).collect();
    let enrol = |user: u64| {
        let store = stores[user as usize].clone();
        Device::enrol(Box::new(store), enrolment(user), options()).unwrap()
    };
    let mut devices: Vec<Device> = (0..DEVICES).map(enrol).collect();
    let mut clock = Duration::from_secs(1000);
    // Numbers are given in order of enrolment: let the first be there before the second comes.
    server.with(|world| world.state = "paused");
    devices.iter_mut().for_each(|device| drop(go(device, &server, &mut clock)));
    server.with(|world| (world.state, world.faults) = ("waiting", faults));
    stores.iter().for_each(|store| *store.plan.lock().unwrap() = kills.to_vec());
    for round in 0..ROUNDS {
        for user in 0..DEVICES as usize {
            let mut tries = 0;
            while !server.with(|world| world.updates.contains_key(&(user as u64, round))) || devices[user].has_pending()
            {
                clock += match devices[user].step(&*server, clock) {
                    Ok(NextStep::Wait(rest, _)) => rest,
                    Ok(NextStep::Stop(end)) => panic!("{end}"),
                    Err(_) => {
                        devices[user] = Device::open(Box::new(stores[user].clone()), options()).unwrap();
                        Duration::ZERO
                    }
                };
                tries += 1;
                assert!(tries < 200, "user {user} never gets through round {round}");
            }
        }
        server.close_round();
    }
    let updates = server.with(|world| world.updates.iter().map(|(of, update)| (*of, update.1.clone())).collect());
    for device in &devices {
        assert_eq!(device.ledger().totals().updates, ROUNDS, "each update is in the ledger once");
    }
    (updates, devices.iter().map(|device| device.private().unwrap().to_vec()).collect())
}

fn fault() -> impl Strategy<Value = Option<Fault>> {
    let faults = [None, None, Some(Fault::Before), Some(Fault::After), Some(Fault::Busy)];
    prop::sample::select(faults.to_vec())
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(60))]

    #[test]
    fn faults_and_kills_change_nothing(
        faults in prop::collection::vec(fault(), 0..60),
        kills in prop::collection::vec(any::<Option<bool>>(), 0..20),
    ) {
        prop_assert_eq!(run(faults, &kills), run(Vec::new(), &[]));
    }
}

#[test]
fn a_kill_at_any_commit_changes_nothing() {
    let expected = run(Vec::new(), &[]);
    for at in 0..3 * ROUNDS as usize {
        for keeps in [false, true] {
            let mut kills = vec![None; at];
            kills.push(Some(keeps));
            assert_eq!(run(Vec::new(), &kills), expected, "commit {at}, kept: {keeps}");
        }
    }
}

#[test]
fn a_lost_enrolment_response_makes_no_second_device() {
    let server = Server::new();
    let store = SharedStore::default();
    let mut device = Device::enrol(Box::new(store.clone()), enrolment(0), options()).unwrap();
    server.with(|world| world.faults = vec![None, Some(Fault::After)]);
    let next = device.step(&*server, Duration::ZERO).unwrap();
    assert!(matches!(next, NextStep::Wait(_, WaitReason::Failed { times: 1, .. })));
    // Killed and begun anew, it asks under the same key.
    drop(device);
    let mut device = Device::open(Box::new(store), options()).unwrap();
    assert!(matches!(device.membership(), Membership::Enrolling { .. }));
    device.step(&*server, Duration::ZERO).unwrap();
    assert_eq!((device.number(), server.with(|world| world.devices.len())), (Some(0), 1));
}

#[test]
fn backs_off_after_failures_until_success() {
    let server = Server::new();
    let (mut device, _) = common::device(0);
    server.with(|world| world.faults = vec![Some(Fault::Before); 8]);
    let mut clock = Duration::ZERO;
    let mut rests = Vec::new();
    loop {
        match device.step(&*server, clock).unwrap() {
            NextStep::Wait(rest, WaitReason::Failed { .. }) => {
                rests.push(rest);
                clock += rest;
            }
            next => {
                assert!(matches!(next, NextStep::Wait(_, WaitReason::UpdateAccepted { .. })));
                break;
            }
        }
    }
    assert_eq!(rests.len(), 8);
    assert!(rests[7] > 16 * rests[0] && rests[7] < Duration::from_secs(2), "{rests:?}");
}
