//! All models of a table against one of them.

use super::corrections::{bonferroni, holm};
use super::student::{cohens_d, paired_t};
use super::wilcoxon::wilcoxon;
use serde::Serialize;
use thiserror::Error;

/// Which model the others are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Against<'a> {
    /// The one with the highest mean; the first of equals.
    Best,
    /// The one of this name.
    Named(&'a str),
}

/// A table that cannot be compared.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CompareError {
    /// Nothing to compare.
    #[error("there are {0} models: expected at least 2 to compare")]
    TooFew(usize),
    /// The reference is not in the table.
    #[error("there is no model `{0}` in the table")]
    Unknown(String),
    /// Columns that do not pair up. Fields: a model; its number of users; the model it is compared with; its number of
    /// users.
    #[error("{0} has values of {1} users, {2} of {3}: expected the same users")]
    Unpaired(String, usize, String, usize),
}

/// One model against the reference; differences are model - reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The model.
    pub model: String,
    /// What it is compared with.
    pub reference: String,
    /// Users with a value of both.
    pub users: usize,
    /// Mean difference.
    pub difference: f64,
    /// Effect size: Cohen's d of paired values (d_z).
    pub d: f64,
    /// t of the paired t-test.
    pub t: f64,
    /// Its p, and p corrected over the comparisons of the table.
    #[serde(flatten)]
    pub student: Corrected,
    /// Wilcoxon's signed-rank statistic.
    pub w: f64,
    /// Its p, and p corrected over the comparisons of the table.
    pub wilcoxon: Corrected,
}

/// A p-value, alone and as one of many.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Corrected {
    /// As tested.
    pub p: f64,
    /// After Holm.
    pub p_holm: f64,
    /// After Bonferroni.
    pub p_bonferroni: f64,
}

impl Corrected {
    fn alone(p: f64) -> Self {
        Self { p, p_holm: p, p_bonferroni: p }
    }
}

/// Compares models by their per-user values of one measure, with p corrected over these comparisons.
///
/// A pair of which either value is not a number (no area under the curve) is left out.
///
/// # Errors
/// If there are not two models, the reference is not among them, or users differ in number.
pub fn compare(models: &[(&str, &[f64])], against: Against<'_>) -> Result<Vec<Comparison>, CompareError> {
    if models.len() < 2 {
        return Err(CompareError::TooFew(models.len()));
    }
    let reference = match against {
        Against::Best => best(models),
        Against::Named(wanted) => models
            .iter()
            .position(|(name, _)| *name == wanted)
            .ok_or_else(|| CompareError::Unknown(wanted.to_owned()))?,
    };
    let others = (0..models.len()).filter(|&other| other != reference);
    let mut comparisons = others.map(|other| pair(models[other], models[reference])).collect::<Result<Vec<_>, _>>()?;
    adjust(&mut comparisons);
    Ok(comparisons)
}

/// Corrects p over all these comparisons together.
fn adjust(comparisons: &mut [Comparison]) {
    let fields: [fn(&mut Comparison) -> &mut Corrected; 2] = [|c| &mut c.student, |c| &mut c.wilcoxon];
    for field in fields {
        let p: Vec<f64> = comparisons.iter_mut().map(|comparison| field(comparison).p).collect();
        for (comparison, (holm, bonferroni)) in comparisons.iter_mut().zip(holm(&p).into_iter().zip(bonferroni(&p))) {
            let corrected = field(comparison);
            (corrected.p_holm, corrected.p_bonferroni) = (holm, bonferroni);
        }
    }
}

fn best(models: &[(&str, &[f64])]) -> usize {
    let means =
        models.iter().map(|(_, values)| crate::per_user::mean(values.iter().copied()).unwrap_or(f64::NEG_INFINITY));
    let mut best = (0, f64::NEG_INFINITY);
    for (index, mean) in means.enumerate() {
        if mean > best.1 {
            best = (index, mean);
        }
    }
    best.0
}

fn pair(model: (&str, &[f64]), reference: (&str, &[f64])) -> Result<Comparison, CompareError> {
    if model.1.len() != reference.1.len() {
        return Err(CompareError::Unpaired(
            model.0.to_owned(),
            model.1.len(),
            reference.0.to_owned(),
            reference.1.len(),
        ));
    }
    let differences = model.1.iter().zip(reference.1).map(|(a, b)| a - b);
    let differences: Vec<f64> = differences.filter(|difference| !difference.is_nan()).collect();
    let (student, signed) = (paired_t(&differences), wilcoxon(&differences));
    Ok(Comparison {
        model: model.0.to_owned(),
        reference: reference.0.to_owned(),
        users: differences.len(),
        difference: super::mean_and_deviation(&differences).0,
        d: cohens_d(&differences),
        t: student.t,
        student: Corrected::alone(student.p),
        w: signed.statistic,
        wilcoxon: Corrected::alone(signed.p),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [f64; 6] = [0.5, 0.25, 0.75, 1.0, 0.125, f64::NAN];
    const B: [f64; 6] = [0.25, 0.125, 0.75, 0.5, 0.0, f64::NAN];
    const C: [f64; 6] = [0.5, 0.5, 0.25, 0.375, 0.25, f64::NAN];

    #[test]
    fn compares_all_models_with_the_best() {
        let found = compare(&[("b", &B), ("a", &A), ("c", &C)], Against::Best).unwrap();
        let names: Vec<_> = found.iter().map(|c| (c.model.as_str(), c.reference.as_str(), c.users)).collect();
        assert_eq!(names, [("b", "a", 5), ("c", "a", 5)]);
        assert_eq!(found[0].difference, -0.2);
        assert!(found[0].t < 0.0 && found[0].d < 0.0);
        let p = [found[0].student.p, found[1].student.p];
        assert!(p[0] < p[1]);
        assert_eq!([found[0].student.p_holm, found[1].student.p_holm], [2.0 * p[0], (2.0 * p[0]).max(p[1])]);
        assert_eq!(found[1].student.p_bonferroni, (2.0 * p[1]).min(1.0));
        assert_eq!(found[0].wilcoxon.p_bonferroni, 2.0 * found[0].wilcoxon.p);
    }

    #[test]
    fn corrects_over_several_metrics_together() {
        let mut all = compare(&[("a", &A), ("b", &B)], Against::Named("b")).unwrap();
        all.extend(compare(&[("a", &A), ("c", &C)], Against::Named("a")).unwrap());
        assert_eq!(all[0].student.p, all[0].student.p_bonferroni);
        adjust(&mut all);
        assert_eq!(2.0 * all[0].student.p, all[0].student.p_bonferroni);
        let json = serde_json::to_value(&all[0]).unwrap();
        assert_eq!(json["p_bonferroni"].as_f64(), Some(all[0].student.p_bonferroni));
        assert_eq!(json["wilcoxon"]["p"].as_f64(), Some(all[0].wilcoxon.p));
    }

    #[test]
    fn rejects_tables_that_cannot_be_compared() {
        assert_eq!(compare(&[("a", &A)], Against::Best), Err(CompareError::TooFew(1)));
        let unknown = compare(&[("a", &A), ("b", &B)], Against::Named("z"));
        assert_eq!(unknown, Err(CompareError::Unknown("z".to_owned())));
        let message = compare(&[("a", &A), ("b", &B[1..])], Against::Best).unwrap_err().to_string();
        assert_eq!(message, "b has values of 5 users, a of 6: expected the same users");
    }
}
