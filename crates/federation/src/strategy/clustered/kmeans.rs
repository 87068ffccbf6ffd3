//! k-means with as many clusters as the points have.
//!
//! Centres start by k-means++ (Arthur and Vassilvitskii, SODA 2007) and follow Lloyd's iteration. The number of
//! clusters is chosen in two steps, as in ReFRS: the elbow of the sum of squared distances as a function of k (the
//! point farthest below the line from first to last), then of the numbers near the elbow the one with the largest mean
//! silhouette (Rousseeuw 1987).

use sottovoce_core::Rng;

const ITERATIONS: usize = 50;
const STARTS: u64 = 3;
/// Numbers of clusters on each side of the elbow that are compared by silhouette.
const NEAR: usize = 2;

/// Points, and which centre is nearest to each.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Clustering {
    pub(super) centres: Vec<Vec<f32>>,
    pub(super) labels: Vec<usize>,
    /// Sum of squared distances.
    pub(super) inertia: f64,
}

/// At most so many clusters; one if there is no reason for more.
pub(super) fn cluster(points: &[Vec<f32>], most: usize, rng: &Rng) -> Clustering {
    let most = most.min(points.len()).max(1);
    let mut by_count: Vec<Clustering> = (1..=most).map(|k| k_means(points, k, &rng.stream("k", k as u64))).collect();
    let inertias: Vec<f64> = by_count.iter().map(|clustering| clustering.inertia).collect();
    let elbow = elbow(&inertias) + 1;
    let near = elbow.saturating_sub(NEAR).max(2)..=(elbow + NEAR).min(most);
    let scores = near.map(|k| (silhouette(points, &by_count[k - 1]), k)).filter(|(score, _)| *score > 0.0);
    let best = scores.fold((0.0, 1), |best, next| if next.0 > best.0 { next } else { best });
    by_count.swap_remove(best.1 - 1)
}

/// The place farthest below the line from the first to the last value.
fn elbow(values: &[f64]) -> usize {
    let (Some(&first), Some(&last)) = (values.first(), values.last()) else { return 0 };
    let steps = values.len().saturating_sub(1).max(1) as f64;
    let below = |n: usize| first + (last - first) * n as f64 / steps - values[n];
    (1..values.len()).fold(0, |best, n| if below(n) > below(best) { n } else { best })
}

fn k_means(points: &[Vec<f32>], k: usize, rng: &Rng) -> Clustering {
    let runs = (0..STARTS).map(|start| lloyd(points, spread_centres(points, k, &mut rng.stream("start", start))));
    let none = Clustering { centres: Vec::new(), labels: Vec::new(), inertia: f64::INFINITY };
    runs.fold(none, |best, next| if next.inertia < best.inertia { next } else { best })
}

/// k-means++: each next centre is a point drawn in proportion to its squared distance from the nearest one so far.
fn spread_centres(points: &[Vec<f32>], k: usize, rng: &mut Rng) -> Vec<Vec<f32>> {
    let mut centres = vec![points[rng.index(points.len())].clone()];
    let mut distances: Vec<f64> = points.iter().map(|point| squared(point, &centres[0])).collect();
    while centres.len() < k {
        let total: f64 = distances.iter().sum();
        let mut left = rng.unit() * total;
        let drawn = distances.iter().position(|&distance| {
            left -= distance;
            left < 0.0
        });
        let next = points[drawn.unwrap_or_else(|| rng.index(points.len()))].clone();
        for (distance, point) in distances.iter_mut().zip(points) {
            *distance = distance.min(squared(point, &next));
        }
        centres.push(next);
    }
    centres
}

fn lloyd(points: &[Vec<f32>], mut centres: Vec<Vec<f32>>) -> Clustering {
    let mut labels = vec![usize::MAX; points.len()];
    let mut inertia = 0.0;
    for _ in 0..ITERATIONS {
        let mut moved = false;
        inertia = 0.0;
        for (label, point) in labels.iter_mut().zip(points) {
            let (nearest, distance) = nearest(&centres, point);
            moved |= *label != nearest;
            *label = nearest;
            inertia += distance;
        }
        if !moved {
            break;
        }
        centres = means(points, &labels, centres);
    }
    Clustering { centres, labels, inertia }
}

/// The means of the points of each label; a centre without points stays.
fn means(points: &[Vec<f32>], labels: &[usize], mut centres: Vec<Vec<f32>>) -> Vec<Vec<f32>> {
    for (label, centre) in centres.iter_mut().enumerate() {
        let members = || points.iter().zip(labels).filter(|(_, own)| **own == label).map(|(point, _)| point);
        let count = members().count();
        if count > 0 {
            for (n, value) in centre.iter_mut().enumerate() {
                *value = (members().map(|point| f64::from(point[n])).sum::<f64>() / count as f64) as f32;
            }
        }
    }
    centres
}

pub(super) fn nearest(centres: &[Vec<f32>], point: &[f32]) -> (usize, f64) {
    let distances = centres.iter().map(|centre| squared(point, centre)).enumerate();
    distances.fold((0, f64::INFINITY), |best, next| if next.1 < best.1 { next } else { best })
}

fn squared(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from((a - b) * (a - b))).sum()
}

/// The mean over all points of (b - a) / max(a, b), where a is the mean distance to the others of the own cluster and
/// b the least mean distance to those of another; 0 for a point alone.
fn silhouette(points: &[Vec<f32>], clustering: &Clustering) -> f64 {
    let k = clustering.centres.len();
    let mut sizes = vec![0usize; k];
    clustering.labels.iter().for_each(|&label| sizes[label] += 1);
    let score = |(point, &own): (&Vec<f32>, &usize)| {
        let mut sums = vec![0.0; k];
        for (other, &label) in points.iter().zip(&clustering.labels) {
            sums[label] += squared(point, other).sqrt();
        }
        if sizes[own] < 2 {
            return 0.0;
        }
        let inside = sums[own] / (sizes[own] - 1) as f64;
        let others = (0..k).filter(|&label| label != own && sizes[label] > 0);
        let outside = others.map(|label| sums[label] / sizes[label] as f64).fold(f64::INFINITY, f64::min);
        let larger = inside.max(outside);
        if larger > 0.0 && outside.is_finite() { (outside - inside) / larger } else { 0.0 }
    };
    points.iter().zip(&clustering.labels).map(score).sum::<f64>() / points.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many groups of 20 points around the corners of a large square and its middle.
    fn groups(count: usize) -> Vec<Vec<f32>> {
        let corners = [[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0], [4.5, 4.5]];
        let mut rng = Rng::new(1);
        let point = |n: usize| {
            let [x, y] = corners[n % count];
            vec![x + 0.4 * rng.normal() as f32, y + 0.4 * rng.normal() as f32]
        };
        (0..20 * count).map(point).collect()
    }

    #[test]
    fn finds_as_many_clusters_as_there_are_groups() {
        for count in 2..=5 {
            let points = groups(count);
            let found = cluster(&points, 12, &Rng::new(2));
            assert_eq!(found.centres.len(), count);
            let (labels, points) = (&found.labels, points.len());
            assert!((0..points).all(|n| labels[n] == labels[n % count]), "{labels:?}");
            assert!((1..count).all(|n| labels[n] != labels[0]));
        }
    }

    #[test]
    fn equal_points_are_one_cluster_and_few_points_do_not_fail() {
        let same = vec![vec![1.0, 2.0]; 30];
        assert_eq!(cluster(&same, 10, &Rng::new(3)).centres, [vec![1.0, 2.0]]);
        assert_eq!(cluster(&same[..1], 10, &Rng::new(3)).labels, [0]);
        let two = [vec![0.0], vec![1.0]];
        assert!(cluster(&two, 10, &Rng::new(3)).centres.len() <= 2);
    }

    /// Two points apart by 1 on each side of a gap of 9: a = 1, b = 9.5 for the outer and 8.5 for the inner ones.
    #[test]
    fn silhouettes_are_those_of_the_definition() {
        let points: Vec<Vec<f32>> = [0.0, 1.0, 9.0, 10.0].map(|x| vec![x]).into();
        let clustering = k_means(&points, 2, &Rng::new(4));
        let expected = (2.0 * (8.5 / 9.5) + 2.0 * (7.5 / 8.5)) / 4.0;
        assert!((silhouette(&points, &clustering) - expected).abs() < 1e-9);
        assert_eq!(clustering.inertia, 1.0);
    }
}
