use super::*;
use crate::Aggregation;
use job::FoundClusters;
use sottovoce_core::Rng;
use sottovoce_models::federated::AggregationSpec;
use sottovoce_models::federated::clustering::{Assignment, ClusterConfig, Clusters};
use sottovoce_protocol::Trained;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

const PARAMETERS: usize = 30;
const DEVICES: u32 = 24;

fn spec(staleness: usize) -> ClusteredSpec {
    let config = ClusterConfig { clusters: 6, cluster_dim: 4, staleness, ..ClusterConfig::default() };
    let clusters = Clusters::new(&config, PARAMETERS, 0);
    match clusters.aggregation(&config, DEVICES as usize) {
        AggregationSpec::Clustered(spec) => spec,
        other => panic!("{other:?}"),
    }
}

fn start(spec: &ClusteredSpec) -> Parameters {
    let tables = spec.clusters.init(&Rng::new(1), |network, rng| rng.fill_normal(0.1, network)).unwrap();
    Parameters::new(tables).unwrap()
}

/// Where a device's training leads: devices are of three kinds.
fn target(device: u32) -> Vec<f32> {
    let mut network = vec![0.0; PARAMETERS];
    Rng::new(7).stream("device", device.into()).fill_normal(0.02, &mut network);
    network[(device % 3) as usize * 10..][..10].iter_mut().for_each(|value| *value += 1.0);
    network
}

/// A round in which these devices train: as devices do it, each from the network of its own cluster.
fn round(spec: &ClusteredSpec, shared: &Parameters, devices: impl IntoIterator<Item = u32>) -> Aggregate {
    let (layout, clusters) = (shared.layout(), spec.clusters);
    let prepared = clusters.prepare(shared);
    let mut aggregate = Aggregate::with(&layout, &Aggregation::default().identifying().unwrap());
    for device in devices {
        let mut own = target(device);
        let cluster = clusters.assign(shared, &prepared, Some(&own), |_| 0.0);
        let mut trained = Trained::new(&layout);
        clusters.propose(shared, &prepared, cluster, &mut own, &mut trained).unwrap();
        aggregate.add_from(device, trained.update());
    }
    aggregate
}

fn state(strategy: &Clustered) -> Vec<u8> {
    let mut bytes = Vec::new();
    strategy.save(&mut bytes).unwrap();
    bytes
}

#[test]
fn finds_the_kinds_of_devices_and_averages_each() {
    let spec = spec(50);
    let (mut shared, mut strategy) = (start(&spec), Clustered::new(spec));
    for _ in 0..3 {
        let sent = round(&spec, &shared, 0..DEVICES);
        strategy.apply(&mut shared, &sent);
    }
    let figures = strategy.clusters().unwrap();
    assert_eq!(figures.clusterings, [(2, 3)], "{figures:?}");
    assert_eq!(figures.sizes.iter().filter(|size| **size == 8).count(), 3, "{figures:?}");
    // Each device is in a cluster with its kind, whose network is their mean.
    let prepared = spec.clusters.prepare(&shared);
    for device in 0..DEVICES {
        let cluster = spec.clusters.assign(&shared, &prepared, Some(&target(device)), |_| panic!("not by loss"));
        let network = shared.tables()[0].row(cluster);
        let mean =
            |n: usize| (0..DEVICES).filter(|other| other % 3 == device % 3).map(|o| target(o)[n]).sum::<f32>() / 8.0;
        assert!((0..PARAMETERS).all(|n| (network[n] - mean(n)).abs() < 1e-5), "{device}: {network:?}");
    }
}

#[test]
fn devices_that_stay_away_count_until_they_are_stale() {
    let spec = spec(12);
    let (mut shared, mut strategy) = (start(&spec), Clustered::new(spec));
    let all = round(&spec, &shared, 0..DEVICES);
    strategy.apply(&mut shared, &all);
    let counted = |strategy: &Clustered| strategy.figures.sizes.iter().sum::<usize>();
    for later in 0..20 {
        let sent = round(&spec, &shared, 0..DEVICES - 1);
        strategy.apply(&mut shared, &sent);
        assert_eq!(counted(&strategy), (DEVICES - u32::from(later >= 12)) as usize, "{later}");
    }
    assert_eq!(strategy.figures.stale, 1);
    let back = round(&spec, &shared, DEVICES - 1..DEVICES);
    strategy.apply(&mut shared, &back);
    assert_eq!(counted(&strategy), DEVICES as usize);
}

#[test]
fn a_killed_server_goes_on_as_if_nothing_had_happened() {
    let spec = spec(50);
    let (mut shared, mut strategy) = (start(&spec), Clustered::new(spec));
    let (mut other, mut restored) = (shared.clone(), Clustered::new(spec));
    for _ in 0..6 {
        let sent = round(&spec, &shared, 0..DEVICES);
        strategy.apply(&mut shared, &sent);
        // Also while a clustering is under way.
        let saved = state(&restored);
        restored = Clustered::new(spec);
        restored.restore(&other, &mut &saved[..]).unwrap();
        let sent = round(&spec, &other, 0..DEVICES);
        restored.apply(&mut other, &sent);
        assert_eq!(shared, other);
        assert_eq!(state(&strategy), state(&restored));
    }
    assert!(strategy.figures.clusterings.len() > 1);
    let saved = state(&strategy);
    for damaged in [&saved[..saved.len() - 1], &[&[9; 40], &saved[40..]].concat()] {
        assert!(Clustered::new(spec).restore(&shared, &mut &damaged[..]).is_err());
    }
}

/// Finds two fixed clusters once it is told to go on.
struct Slow {
    started: Mutex<Sender<()>>,
    go_on: Mutex<Receiver<()>>,
    found: FoundClusters,
}

impl Clusterer for Slow {
    fn find(&self, _: &[Vec<f32>], _: &Rng) -> Option<FoundClusters> {
        self.started.lock().unwrap().send(()).unwrap();
        self.go_on.lock().unwrap().recv().unwrap();
        Some(self.found.clone())
    }
}

#[test]
fn a_slow_clustering_holds_up_no_upload() {
    let spec = spec(50);
    let ((started, starts), (go_on, goes_on)) = (channel(), channel());
    let sampler = vec![0.0; spec.clusters.sampler().unwrap().values()];
    let found = FoundClusters { sampler, centroids: vec![vec![0.0; 4], vec![1.0; 4]] };
    let slow = Slow { started: Mutex::new(started), go_on: Mutex::new(goes_on), found };
    let (mut shared, mut strategy) = (start(&spec), Clustered::new(spec).with_clusterer(Arc::new(slow)));
    strategy.never_wait();
    for late in 0..5 {
        let sent = round(&spec, &shared, 0..DEVICES);
        strategy.apply(&mut shared, &sent);
        if late == 0 {
            starts.recv().unwrap();
        }
        assert_eq!(strategy.figures.late, late);
        assert_eq!(strategy.figures.sizes[0], DEVICES as usize);
    }
    go_on.send(()).unwrap();
    while !strategy.job.as_ref().is_some_and(Job::is_finished) {
        std::thread::yield_now();
    }
    let sent = round(&spec, &shared, 0..DEVICES);
    strategy.apply(&mut shared, &sent);
    assert_eq!((strategy.figures.clusterings.as_slice(), strategy.figures.late), (&[(6, 2)][..], 4));
}

#[test]
fn updates_that_are_no_numbers_are_left_out() {
    let spec = spec(50);
    let (mut shared, mut strategy) = (start(&spec), Clustered::new(spec));
    let mut aggregate = round(&spec, &shared, 0..3);
    let mut lie = Trained::new(&shared.layout());
    lie.push_row(0, 0, sottovoce_protocol::RowOrigin::Other).unwrap().fill(f32::NAN);
    aggregate.add_from(3, lie.update());
    let mut huge = Trained::new(&shared.layout());
    huge.push_row(0, 0, sottovoce_protocol::RowOrigin::Other).unwrap().fill(f32::MAX);
    aggregate.add_from(4, huge.update());
    aggregate.add_from(5, huge.update());
    strategy.apply(&mut shared, &aggregate);
    assert!(shared.tables()[0].row(0).iter().all(|value| value.is_finite()));
}

#[test]
fn an_update_is_clipped_where_that_is_asked_for() {
    let spec = spec(50);
    let (mut shared, mut strategy) = (start(&spec), Clustered::new(spec));
    let before = shared.tables()[0].row(0).to_vec();
    let clipping = Aggregation::from(crate::RobustAggregator::ClipUpdate(0.5)).identifying().unwrap();
    let mut aggregate = Aggregate::with(&shared.layout(), &clipping);
    let mut lie = Trained::new(&shared.layout());
    lie.push_row(0, 0, sottovoce_protocol::RowOrigin::Other).unwrap().fill(1e6);
    aggregate.add_from(3, lie.update());
    strategy.apply(&mut shared, &aggregate);
    let moved: f32 = shared.tables()[0].row(0).iter().zip(&before).map(|(a, b)| (a - b) * (a - b)).sum();
    assert!((moved.sqrt() - 0.5).abs() < 1e-4, "{moved}");
    assert!(Aggregation::from(crate::RobustAggregator::Median).identifying().is_err());
    assert!(matches!(spec.clusters.assignment, Assignment::Sampler));
}
