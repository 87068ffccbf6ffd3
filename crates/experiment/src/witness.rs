//! A look over the server's shoulder in every federated trial that counts.

use crate::plan::Trial;
use sottovoce_audit::{Subjects, Surface, View, Witness};
use sottovoce_core::{Catalog, Histories};
use std::sync::Arc;

/// People whose histories are rebuilt: enough for a figure, few enough to cost nearly nothing.
const PEOPLE: usize = 100;

/// Somebody to show the trial's uploads to, if its model is one whose uploads are understood.
pub(crate) fn of(trial: &Trial, train: &Histories, catalog: &Catalog) -> Option<Arc<Witness>> {
    let surface = Surface::of(trial.model.name, catalog.facts.as_ref()).ok()?;
    let subjects = || Subjects::draw(train, None, PEOPLE, trial.seed);
    let witness = || Witness::new(surface, subjects(), View::Uploads, Vec::new());
    trial.stage.is_final().then(|| Arc::new(witness()))
}

/// What it found, as figures of the trial; none if nothing was sent.
pub(crate) fn figures(witness: &Witness) -> Vec<(String, f64)> {
    let Ok(findings) = witness.conclude() else { return Vec::new() };
    let Some(all) = findings.combined() else { return Vec::new() };
    let figures = [
        ("leak_auc", all.auc),
        ("leak_guess_auc", all.guess_auc),
        ("leak_precision", all.precision),
        ("leak_guess_precision", all.guess_precision),
        ("leak_exposed", all.exposed),
    ];
    figures.map(|(name, value)| (name.to_owned(), value)).into()
}
