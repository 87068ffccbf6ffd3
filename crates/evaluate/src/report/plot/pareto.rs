//! The points that no other point beats.

use super::series::ParetoAxes;

/// The numbers of the points that no other beats, by ascending x.
///
/// A point beats another if it is at least as good both ways and better one way; equal points are both kept. Points
/// with a coordinate that is not a number are left out.
pub fn pareto_front(points: &[(f64, f64)], front: ParetoAxes) -> Vec<usize> {
    let beats = |a: (f64, f64), b: (f64, f64)| {
        let worse = front.x.prefers(b.0, a.0) || front.y.prefers(b.1, a.1);
        !worse && (front.x.prefers(a.0, b.0) || front.y.prefers(a.1, b.1))
    };
    let is_point = |p: &(f64, f64)| p.0.is_finite() && p.1.is_finite();
    let mut kept: Vec<usize> = (0..points.len())
        .filter(|&at| is_point(&points[at]))
        .filter(|&at| !points.iter().any(|&other| is_point(&other) && beats(other, points[at])))
        .collect();
    kept.sort_by(|&a, &b| points[a].0.total_cmp(&points[b].0).then(points[a].1.total_cmp(&points[b].1)));
    kept
}
