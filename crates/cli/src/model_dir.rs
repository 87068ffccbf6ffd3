//! A trained model on disk: `model.safetensors` (parameters, training histories, names) and `model.json` (metadata).

use anyhow::{Context, Result, bail, ensure};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use sottovoce_core::{Catalog, Facts, Histories, Names};
use sottovoce_federation::registry;
use sottovoce_models::settings::{Settings, Value};
use sottovoce_models::{Recommender, Tensor, TensorData};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const TENSORS: &str = "model.safetensors";
const ABOUT: &str = "model.json";
/// Raised when the layout of the folder changes.
const LAYOUT: u32 = 1;

/// Metadata of a stored model.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) layout: u32,
    pub(crate) model: String,
    pub(crate) settings: BTreeMap<String, Value>,
    pub(crate) seed: u64,
    pub(crate) data: String,
    pub(crate) fingerprint: String,
    pub(crate) version: String,
}

/// A stored model.
pub(crate) struct Stored {
    pub(crate) about: About,
    pub(crate) recommender: Box<dyn Recommender>,
    pub(crate) train: Histories,
    pub(crate) users: Names,
    pub(crate) catalog: Catalog,
}

impl About {
    /// Metadata of a model trained by this version.
    pub(crate) fn new(model: &str, settings: &Settings, seed: u64, data: &str, fingerprint: &str) -> Self {
        Self {
            layout: LAYOUT,
            model: model.to_owned(),
            settings: settings.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect(),
            seed,
            data: data.to_owned(),
            fingerprint: fingerprint.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Writes a model into an existing folder.
pub(crate) fn write(
    folder: &Path,
    about: &About,
    recommender: &dyn Recommender,
    train: &Histories,
    users: &Names,
    catalog: &Catalog,
) -> Result<()> {
    let mut arrays = Arrays::of(recommender);
    let ends: Vec<u32> = train.offsets()[1..].iter().map(|&end| u32::try_from(end)).collect::<Result<_, _>>()?;
    arrays.push_u32("train.ends", ends);
    arrays.push_u32("train.items", train.items().to_vec());
    arrays.push_names("users", users);
    arrays.push_names("items", &catalog.ids);
    if let Some(titles) = &catalog.titles {
        arrays.push_names("titles", titles);
    }
    if let Some(facts) = &catalog.facts {
        arrays.push_facts(facts);
    }
    write_files(folder, about, &arrays)
}

/// Writes a model trained on a history file, which has no names.
pub(crate) fn write_nameless(folder: &Path, about: &About, recommender: &dyn Recommender) -> Result<()> {
    write_files(folder, about, &Arrays::of(recommender))
}

fn write_files(folder: &Path, about: &About, arrays: &Arrays) -> Result<()> {
    crate::folder::write(&folder.join(TENSORS), arrays.serialise()?)?;
    crate::folder::write(&folder.join(ABOUT), serde_json::to_vec_pretty(about)?)
}

/// Reads a model that [`write()`] wrote.
pub(crate) fn read(folder: &Path) -> Result<Stored> {
    let path = folder.join(ABOUT);
    let text = std::fs::read(&path).with_context(|| {
        format!("reading {} (is this a folder that `sottovoce train --out` wrote?)", path.display())
    })?;
    let about: About = serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))?;
    ensure!(
        about.layout == LAYOUT,
        "{} has layout {}, this program reads layout {LAYOUT}: train again",
        path.display(),
        about.layout
    );
    let path = folder.join(TENSORS);
    let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    assemble(about, &bytes).with_context(|| format!("reading {}", path.display()))
}

fn assemble(about: About, bytes: &[u8]) -> Result<Stored> {
    let file = SafeTensors::deserialize(bytes)?;
    ensure!(
        file.tensor("users.ends").is_ok(),
        "it was trained on a history file, which has no names: it cannot recommend to a named user"
    );
    let users = names(&file, "users")?;
    let titles = file.tensor("titles.ends").is_ok().then(|| names(&file, "titles")).transpose()?;
    let ids = names(&file, "items")?;
    let facts = file.tensor("facts.ends").is_ok().then(|| facts(&file, ids.len())).transpose()?;
    let catalog = Catalog { ids, titles, categories: None, facts: facts.map(Arc::new) };
    let mut offsets = vec![0];
    offsets.extend(u32s(&file.tensor("train.ends")?)?.into_iter().map(|end| end as usize));
    let items = u32s(&file.tensor("train.items")?)?;
    let train = Histories::from_columns(offsets, items, Vec::new(), Vec::new(), catalog.len())?;
    ensure!(users.len() == train.users(), "{} users have {} histories", users.len(), train.users());
    let model = registry::find(&about.model)?;
    let settings = model.settings(about.settings.iter().map(|(key, value)| (key.as_str(), value.clone())))?;
    let mut recommender = model.build(&settings);
    recommender.know(&catalog)?;
    recommender.restore(&parameters(&file)?, &train)?;
    Ok(Stored { about, recommender, train, users, catalog })
}

fn parameters(file: &SafeTensors<'_>) -> Result<Vec<Tensor>> {
    let mut tensors = Vec::new();
    for (name, view) in file.iter() {
        let Some(name) = name.strip_prefix("model.") else { continue };
        let data = match view.dtype() {
            Dtype::F32 => TensorData::F32(words(&view).map(f32::from_le_bytes).collect()),
            Dtype::U32 => TensorData::U32(u32s(&view)?),
            other => bail!("{name} is of type {other:?}"),
        };
        tensors.push(Tensor { name: name.to_owned(), shape: view.shape().to_vec(), data });
    }
    Ok(tensors)
}

fn u32s(view: &TensorView<'_>) -> Result<Vec<u32>> {
    ensure!(view.dtype() == Dtype::U32, "expected 32-bit numbers, found {:?}", view.dtype());
    Ok(words(view).map(u32::from_le_bytes).collect())
}

fn words(view: &TensorView<'_>) -> impl Iterator<Item = [u8; 4]> {
    view.data().as_chunks::<4>().0.iter().copied()
}

fn names(file: &SafeTensors<'_>, what: &str) -> Result<Names> {
    let text = file.tensor(&format!("{what}.text"))?;
    let text = std::str::from_utf8(text.data()).with_context(|| format!("names of {what}"))?;
    let mut start = 0;
    let mut all = Names::new();
    for end in u32s(&file.tensor(&format!("{what}.ends"))?)? {
        let name = text.get(start..end as usize).with_context(|| format!("names of {what} do not end at {end}"))?;
        all.push(name);
        start = end as usize;
    }
    Ok(all)
}

fn facts(file: &SafeTensors<'_>, items: usize) -> Result<Facts> {
    let names = names(file, "features")?;
    let hops = u32s(&file.tensor("features.hops")?)?;
    let hops: Vec<u8> = hops.into_iter().map(u8::try_from).collect::<Result<_, _>>()?;
    let (ends, members) = (u32s(&file.tensor("facts.ends")?)?, u32s(&file.tensor("facts.features")?)?);
    ensure!(hops.len() == names.len() && ends.len() == items, "facts of other items or features");
    ensure!(members.iter().all(|&feature| (feature as usize) < names.len()), "facts have unknown features");
    let starts = std::iter::once(0).chain(ends.iter().map(|&end| end as usize));
    let lists: Option<Vec<&[u32]>> = starts.zip(&ends).map(|(start, &end)| members.get(start..end as usize)).collect();
    Ok(Facts::new(&names, hops, lists.context("facts do not end where they should")?))
}

/// Arrays to be written, with their bytes.
#[derive(Default)]
pub(crate) struct Arrays(Vec<(String, Dtype, Vec<usize>, Vec<u8>)>);

impl Arrays {
    fn of(recommender: &dyn Recommender) -> Self {
        let mut arrays = Self::default();
        for tensor in recommender.tensors() {
            arrays.push(format!("model.{}", tensor.name), tensor.shape, &tensor.data);
        }
        arrays
    }

    pub(crate) fn push(&mut self, name: String, shape: Vec<usize>, data: &TensorData) {
        let (dtype, bytes) = match data {
            TensorData::F32(values) => (Dtype::F32, values.iter().flat_map(|v| v.to_le_bytes()).collect()),
            TensorData::U32(values) => (Dtype::U32, values.iter().flat_map(|v| v.to_le_bytes()).collect()),
        };
        self.0.push((name, dtype, shape, bytes));
    }

    fn push_u32(&mut self, name: &str, values: Vec<u32>) {
        self.push(name.to_owned(), vec![values.len()], &TensorData::U32(values));
    }

    fn push_names(&mut self, what: &str, names: &Names) {
        let mut text = Vec::new();
        let mut ends = Vec::with_capacity(names.len());
        for name in names.iter() {
            text.extend_from_slice(name.as_bytes());
            ends.push(text.len() as u32);
        }
        self.0.push((format!("{what}.text"), Dtype::U8, vec![text.len()], text));
        self.push_u32(&format!("{what}.ends"), ends);
    }

    fn push_facts(&mut self, facts: &Facts) {
        self.push_names("features", &facts.names());
        let hops = (0..facts.features()).map(|feature| u32::from(facts.hops(feature))).collect();
        self.push_u32("features.hops", hops);
        let (mut ends, mut members) = (Vec::new(), Vec::new());
        for item in 0..facts.items() {
            members.extend(facts.of(item).iter());
            ends.push(members.len() as u32);
        }
        self.push_u32("facts.ends", ends);
        self.push_u32("facts.features", members);
    }

    /// The arrays as safetensors.
    pub(crate) fn serialise(&self) -> Result<Vec<u8>> {
        let views = self.0.iter().map(|(name, dtype, shape, bytes)| {
            TensorView::new(*dtype, shape.clone(), bytes).map(|view| (name.clone(), view))
        });
        let views: Vec<_> = views.collect::<Result<_, _>>()?;
        Ok(safetensors::serialize(views, None)?)
    }
}
