//! The catalog of a federation, from a file or a data set.

use crate::args::{Common, Create};
use crate::prepared::load;
use anyhow::{Context, Result};
use sottovoce_core::{CATALOG_HEADER, Catalog};
use sottovoce_server::federation::catalog::HEADER;
use std::fmt::Write;

/// The catalog as text.
pub(super) fn of(args: &Create, common: &Common) -> Result<String> {
    if let Some(path) = &args.catalog {
        return std::fs::read_to_string(path).with_context(|| path.display().to_string());
    }
    let data = args.catalog_of.as_deref().unwrap_or_default();
    let dataset = load(data, &args.loading.options(common), &args.loading.cleaning.cleaning(), common)?;
    Ok(text_of(&dataset.interactions.catalog))
}

/// A catalog in the format of the server and devices.
fn text_of(catalog: &Catalog) -> String {
    let plain = |text: &str| text.replace(['\t', '\n', '\r'], " ");
    let facts = catalog.facts.as_deref().filter(|facts| facts.features() > 0);
    let mut out = format!("{}\n", if facts.is_some() { CATALOG_HEADER } else { HEADER });
    for (item, id) in catalog.ids.iter().enumerate() {
        let title = catalog.title(item).map(plain).unwrap_or_default();
        let names: Vec<String> = catalog.categories.as_ref().map_or(Vec::new(), |categories| {
            let name = |&category: &u32| categories.names().get(category as usize);
            categories.of(item).iter().filter_map(name).map(|name| plain(name).replace('|', "/")).collect()
        });
        let _ = write!(out, "{}\t{title}\t{}", plain(id), names.join("|"));
        if let Some(facts) = facts {
            let _ = write!(out, "\t{}", facts.item_text(item));
        }
        out.push('\n');
    }
    out.extend(facts.map(sottovoce_core::Facts::features_text));
    out
}
