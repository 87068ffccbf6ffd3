//! Look-alike models as `sottovoce train --out` writes them.

use crate::scorer::Scorer;
use crate::tables::digest;
use anyhow::{Context, Result, bail, ensure};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use sottovoce_models::federated::lookalike::{Predictor, PredictorScratch, Text};
use sottovoce_models::settings::Value;
use sottovoce_models::{Tensor, TensorData};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The layout of a model's folder that is read here.
const LAYOUT: u32 = 1;
const PARAMETERS: &str = "model.";
/// Rows of the people who were in training: nothing that a plan should carry.
const USERS: &str = "model.users";
/// Under which name a packed model says what it is.
const ABOUT: &str = "sottovoce";

/// What a folder's `model.json` says of the model.
#[derive(Deserialize)]
struct Metadata {
    layout: u32,
    model: String,
    settings: BTreeMap<String, Value>,
}

/// What a packed model says of itself.
#[derive(Deserialize, Serialize)]
struct About {
    model: String,
    settings: BTreeMap<String, Value>,
    encoder: Option<String>,
}

/// A trained look-alike model.
pub(crate) struct Trained {
    predictor: Predictor,
    categories: Vec<String>,
    encoder: Option<String>,
    /// Working memory that nobody uses at the moment.
    idle: Mutex<Vec<PredictorScratch>>,
}

/// The model in a folder as bytes that a plan can carry: its parameters and categories, and nothing of the people on
/// whom it was trained.
///
/// # Errors
/// If the folder holds no look-alike model.
pub fn pack(folder: &Path) -> Result<Vec<u8>> {
    let read = |name: &str| std::fs::read(folder.join(name)).with_context(|| folder.join(name).display().to_string());
    let metadata = read("model.json").context("is this a folder that `sottovoce train --out` wrote?")?;
    let Metadata { layout, model, settings } = serde_json::from_slice(&metadata).context("model.json")?;
    ensure!(layout == LAYOUT, "model.json: layout {layout}, but this program reads layout {LAYOUT}: train again");
    let encoder = folder.join("titles.encoder");
    let encoder = encoder.exists().then(|| read("titles.encoder")).transpose()?.map(|bytes| digest(&bytes));
    let tensors = read("model.safetensors")?;
    let file = SafeTensors::deserialize(&tensors).context("model.safetensors")?;
    let wanted = |name: &str| name.starts_with("items.") || (name.starts_with(PARAMETERS) && name != USERS);
    let tensors: Vec<(String, TensorView<'_>)> =
        file.iter().filter(|(name, _)| wanted(name)).map(|(name, view)| (name.to_owned(), view)).collect();
    let about = serde_json::to_string(&About { model, settings, encoder })?;
    let packed = safetensors::serialize(tensors, Some(HashMap::from([(ABOUT.to_owned(), about)])))?;
    Trained::parse(&packed)?;
    Ok(packed)
}

impl Trained {
    /// Reads what [`pack`] gave; whether the bytes are such a model at all says [`Trained::is_one`].
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let (_, metadata) = SafeTensors::read_metadata(bytes)?;
        let about = metadata.metadata().as_ref().and_then(|all| all.get(ABOUT)).context("not a packed model")?;
        let About { model, settings, encoder } = serde_json::from_str(about)?;
        let file = SafeTensors::deserialize(bytes)?;
        let categories = names(&file)?;
        let settings = settings.iter().map(|(key, value)| (key.as_str(), value.clone()));
        let predictor = Predictor::restore(&model, settings, &parameters(&file)?, categories.len())?;
        let encoder = match predictor.shape().text {
            Text::Nothing => None,
            Text::Titles => Some(encoder.context(
                "the model reads titles, but its folder has no titles.encoder: train it again with this version",
            )?),
            Text::Entities => bail!(
                "the model reads entities of pages, which click logs of the pipeline do not have: train it with \
                 text=titles or text=none"
            ),
        };
        Ok(Self { predictor, categories, encoder, idle: Mutex::new(Vec::new()) })
    }

    pub(crate) fn is_one(bytes: &[u8]) -> bool {
        SafeTensors::read_metadata(bytes).is_ok()
    }
}

impl Scorer for Trained {
    fn categories(&self) -> &[String] {
        &self.categories
    }

    fn encoder(&self) -> Option<&str> {
        self.encoder.as_deref()
    }

    fn score(&self, interests: &[u32], pages: &[&[f32]], scores: &mut [f32]) -> Result<()> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut scratch = taken.map_or_else(|| self.predictor.scratch(), Ok)?;
        self.predictor.score(interests, pages, &mut scratch, scores)?;
        idle().push(scratch);
        Ok(())
    }
}

fn words(view: &TensorView<'_>) -> impl Iterator<Item = [u8; 4]> {
    view.data().as_chunks::<4>().0.iter().copied()
}

fn parameters(file: &SafeTensors<'_>) -> Result<Vec<Tensor>> {
    let mut tensors = Vec::new();
    for (name, view) in file.iter() {
        let Some(name) = name.strip_prefix(PARAMETERS) else { continue };
        let data = match view.dtype() {
            Dtype::F32 => TensorData::F32(words(&view).map(f32::from_le_bytes).collect()),
            Dtype::U32 => TensorData::U32(words(&view).map(u32::from_le_bytes).collect()),
            other => bail!("tensor `{name}` is of type {other:?}"),
        };
        tensors.push(Tensor { name: name.to_owned(), shape: view.shape().to_vec(), data });
    }
    Ok(tensors)
}

/// Ids of the categories.
fn names(file: &SafeTensors<'_>) -> Result<Vec<String>> {
    let text = file.tensor("items.text").context("the model has no ids of categories")?;
    let text = std::str::from_utf8(text.data()).context("ids of categories")?;
    let ends = file.tensor("items.ends").context("the model has no ids of categories")?;
    let (mut names, mut start) = (Vec::new(), 0);
    for end in words(&ends).map(|word| u32::from_le_bytes(word) as usize) {
        names.push(text.get(start..end).with_context(|| format!("ids of categories do not end at {end}"))?.to_owned());
        start = end;
    }
    Ok(names)
}
