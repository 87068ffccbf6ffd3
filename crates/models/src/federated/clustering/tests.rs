use super::*;
use sottovoce_protocol::Layout;

const PARAMETERS: usize = 40;

fn clusters(assignment: Assignment, count: usize) -> Clusters {
    let config = ClusterConfig { assignment, clusters: count, cluster_dim: 8, ..ClusterConfig::default() };
    Clusters::new(&config, PARAMETERS, 0)
}

fn shared(clusters: &Clusters) -> Parameters {
    let init = |network: &mut [f32], rng: &mut Rng| rng.fill_normal(0.1, network);
    Parameters::new(clusters.init(&Rng::new(1), init).unwrap()).unwrap()
}

/// A network that differs from another in one of two halves.
fn moved(start: &[f32], half: usize, rng: &mut Rng) -> Vec<f32> {
    let mut noise = vec![0.0; PARAMETERS];
    rng.fill_normal(0.02, &mut noise);
    let in_half = |n: usize| n / (PARAMETERS / 2) == half;
    (0..PARAMETERS).map(|n| start[n] + noise[n] + if in_half(n) { 0.5 } else { 0.0 }).collect()
}

#[test]
fn a_device_alone_or_with_one_cluster_takes_the_first() {
    for assignment in [Assignment::Single, Assignment::Alone, Assignment::Sampler] {
        let clusters = clusters(assignment, 5);
        let shared = shared(&clusters);
        let prepared = clusters.prepare(&shared);
        assert_eq!(clusters.assign(&shared, &prepared, None, |_| panic!("nothing to choose from")), 0);
    }
}

#[test]
fn clusters_by_loss_begin_different_and_the_least_loss_wins() {
    let clusters = clusters(Assignment::Loss, 4);
    let shared = shared(&clusters);
    let prepared = clusters.prepare(&shared);
    let networks = &shared.tables()[0];
    assert!((1..4).all(|row| networks.row(row) != networks.row(0)));
    let target = networks.row(2).to_vec();
    let loss = |row: &[f32]| row.iter().zip(&target).map(|(a, b)| f64::from((a - b).abs())).sum();
    assert_eq!(clusters.assign(&shared, &prepared, Some(networks.row(1)), loss), 2);
    // What is not a number does not win, whatever the server sends.
    assert_eq!(clusters.assign(&shared, &prepared, None, |_| f64::NAN), 0);
}

#[test]
fn an_update_is_the_change_of_one_cluster_and_leads_to_the_devices_own_network() {
    let clusters = clusters(Assignment::Projection, 3);
    let shared = shared(&clusters);
    let (layout, prepared) = (shared.layout(), clusters.prepare(&shared));
    let mut own = moved(shared.tables()[0].row(1), 0, &mut Rng::new(2));
    let mut trained = Trained::new(&layout);
    clusters.propose(&shared, &prepared, 1, &mut own, &mut trained).unwrap();
    let rows: Vec<(usize, &[f32])> = trained.update().tables()[0].iter().collect();
    assert_eq!((rows.len(), rows[0].0), (1, 1));
    let ends = rows[0].1.iter().zip(shared.tables()[0].row(1)).map(|(change, start)| start + change);
    assert!(ends.zip(&own).all(|(end, own)| end == *own));
    // The centroid's change leads to the device's direction, and leaves the cluster in use.
    let (row, change) = trained.update().tables()[1].iter().next().unwrap();
    let end: Vec<f32> = change.iter().zip(shared.tables()[1].row(1)).map(|(change, start)| start + change).collect();
    assert_eq!(row, 1);
    assert!((math::dot(&end[..8], &end[..8]) - 1.0).abs() < 1e-5 && end[8] == 1.0);
    assert!(clusters.propose(&shared, &prepared, 1, &mut own, &mut Trained::new(&Layout::default())).is_err());
}

#[test]
fn projections_tell_directions_apart() {
    let (projection, zeros, rng) = (Projection::new(PARAMETERS, 16), vec![0.0; PARAMETERS], &mut Rng::new(3));
    let embed = |half, rng: &mut Rng| projection.embed(&moved(&zeros, half, rng), &zeros);
    let (one, same, other) = (embed(0, rng), embed(0, rng), embed(1, rng));
    assert!(math::dot(&one, &same) > 0.9, "{}", math::dot(&one, &same));
    assert!(math::dot(&one, &other) < 0.6, "{}", math::dot(&one, &other));
    assert_eq!(projection.embed(&zeros, &zeros), vec![0.0; 16]);
}

#[test]
fn a_trained_sampler_groups_networks_that_are_alike() {
    let sampler = Sampler::new(PARAMETERS, 8).unwrap();
    let mut rng = Rng::new(4);
    let mut start = vec![0.0; PARAMETERS];
    rng.fill_normal(0.1, &mut start);
    let networks: Vec<Vec<f32>> = (0..60).map(|n| moved(&start, n % 2, &mut rng)).collect();
    let views: Vec<&[f32]> = networks.iter().map(Vec::as_slice).collect();
    let trained = sampler.train(&views, 30, &Rng::new(5)).unwrap();
    assert!(trained.loss[1] < 0.5 * trained.loss[0], "{:?}", trained.loss);
    assert_eq!(trained, sampler.train(&views, 30, &Rng::new(5)).unwrap());
    let embed = |n: usize| sampler.embed(&trained.row, &networks[n]).unwrap();
    let distance = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f32>();
    let (one, same, other) = (embed(0), embed(2), embed(1));
    assert!(distance(&one, &same) * 4.0 < distance(&one, &other), "{one:?} {same:?} {other:?}");
    assert!(
        sampler.embed(&trained.row[1..], &networks[0]).is_none() && sampler.embed(&trained.row, &start[1..]).is_none()
    );
    assert!(sampler.train(&[&start[1..]], 1, &Rng::new(5)).is_err());
}

#[test]
fn devices_go_to_the_nearest_centroid_in_use() {
    let clusters = clusters(Assignment::Sampler, 4);
    let sampler = clusters.sampler().unwrap();
    let mut shared = shared(&clusters);
    let (start, mut rng) = (shared.tables()[0].row(0).to_vec(), Rng::new(6));
    let networks: Vec<Vec<f32>> = (0..40).map(|n| moved(&start, n % 2, &mut rng)).collect();
    let views: Vec<&[f32]> = networks.iter().map(Vec::as_slice).collect();
    let row = sampler.train(&views, 30, &Rng::new(7)).unwrap().row;
    for (cluster, network) in [(1, 0), (3, 1)] {
        let centroid = shared.tables_mut()[1].row_mut(cluster);
        centroid[..8].copy_from_slice(&sampler.embed(&row, &networks[network]).unwrap());
        centroid[8] = 1.0;
    }
    shared.tables_mut()[1].row_mut(0)[8] = 0.0;
    shared.tables_mut()[2].row_mut(0).copy_from_slice(&row);
    let prepared = clusters.prepare(&shared);
    for (n, network) in networks.iter().enumerate().skip(2) {
        let found = clusters.assign(&shared, &prepared, Some(network), |_| panic!("not by loss"));
        assert_eq!(found, [1, 3][n % 2]);
    }
    // Centroids that are not numbers attract nobody.
    shared.tables_mut()[1].row_mut(1)[0] = f32::NAN;
    let prepared = clusters.prepare(&shared);
    assert_eq!(clusters.assign(&shared, &prepared, Some(&networks[2]), |_| 0.0), 3);
}
