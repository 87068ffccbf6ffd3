//! The catalog of a federation, from a file or a data set.

use crate::args::{Common, Create};
use anyhow::{Context, Result};
use sottovoce_core::Catalog;
use sottovoce_server::federation::catalog::HEADER;

/// The text that the server takes.
pub(super) fn of(args: &Create, common: &Common) -> Result<String> {
    if let Some(path) = &args.catalog {
        return std::fs::read_to_string(path).with_context(|| path.display().to_string());
    }
    let data = args.catalog_of.as_deref().unwrap_or_default();
    let loaded = super::super::data::load_clean(data, &args.reading, &args.cleaning, common)?;
    Ok(text_of(&loaded.catalog))
}

/// A catalog as the server and devices read it.
pub(crate) fn text_of(catalog: &Catalog) -> String {
    let plain = |text: &str| text.replace(['\t', '\n', '\r'], " ");
    let mut out = format!("{HEADER}\n");
    for (item, id) in catalog.ids.iter().enumerate() {
        let title = catalog.title(item).map(plain).unwrap_or_default();
        let names: Vec<String> = catalog.categories.as_ref().map_or(Vec::new(), |categories| {
            categories.of(item).map(|name| plain(name).replace('|', "/")).collect()
        });
        out.push_str(&format!("{}\t{title}\t{}\n", plain(id), names.join("|")));
    }
    out
}
