//! The catalog of a federation, from a file or a data set.

use crate::args::{Common, Create, Source};
use crate::commands::data::read;
use anyhow::{Context, Result};
use sottovoce_core::Catalog;
use sottovoce_server::federation::catalog::HEADER;
use std::fmt::Write;

/// The text that the server takes.
pub(super) fn of(args: &Create, common: &Common) -> Result<String> {
    if let Some(path) = &args.catalog {
        return std::fs::read_to_string(path).with_context(|| path.display().to_string());
    }
    let data = args.catalog_of.clone().unwrap_or_default();
    let source = Source { data, reading: args.reading.clone() };
    let dataset = read(&source, &args.cleaning, common)?;
    Ok(text_of(&dataset.interactions.catalog))
}

/// A catalog as the server and devices read it.
fn text_of(catalog: &Catalog) -> String {
    let plain = |text: &str| text.replace(['\t', '\n', '\r'], " ");
    let mut out = format!("{HEADER}\n");
    for (item, id) in catalog.ids.iter().enumerate() {
        let title = catalog.title(item).map(plain).unwrap_or_default();
        let names: Vec<String> = catalog.categories.as_ref().map_or(Vec::new(), |categories| {
            let name = |&category: &u32| categories.names().get(category as usize);
            categories.of(item).iter().filter_map(name).map(|name| plain(name).replace('|', "/")).collect()
        });
        let _ = writeln!(out, "{}\t{title}\t{}", plain(id), names.join("|"));
    }
    out
}
