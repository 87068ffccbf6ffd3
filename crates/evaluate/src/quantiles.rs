//! Quantiles, and groups of values by them.

/// The value below which a share of the sorted values lies, interpolated linearly; NaN without values.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = share * last as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// Indices of the values in ascending groups of about equal size: 3 groups are terciles, 4 quartiles. Equal values stay
/// in one group; groups that this leaves empty are dropped.
pub fn quantile_groups(values: &[f64], groups: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut parts = Vec::new();
    let mut start = 0;
    for group in 1..=groups {
        let mut end = order.len() * group / groups;
        while end > start && end < order.len() && values[order[end]].total_cmp(&values[order[end - 1]]).is_eq() {
            end += 1;
        }
        if end > start {
            parts.push(order[start..end].to_vec());
            start = end;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpolates_between_neighbours() {
        assert_eq!(quantile(&[1.0, 3.0, 7.0], 0.75), 5.0);
        assert_eq!(quantile(&[1.0], 0.3), 1.0);
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn groups_keep_equal_values_together() {
        let groups = |values: &[f64], count| quantile_groups(values, count);
        assert_eq!(groups(&[1.0, 2.0, 2.0, 2.0, 3.0], 3), [vec![0], vec![1, 2, 3], vec![4]]);
        assert_eq!(groups(&[4.0, 1.0, 3.0, 2.0], 2), [vec![1, 3], vec![2, 0]]);
        assert_eq!(groups(&[5.0; 4], 3), [vec![0, 1, 2, 3]]);
        assert!(groups(&[], 3).is_empty());
    }
}
