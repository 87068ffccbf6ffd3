//! The catalog of a federation, from a file or a data set.

use crate::args::{Common, Create};
use crate::people;
use crate::prepared::load;
use anyhow::{Context, Result};
use sottovoce_core::{CATALOG_HEADER, Catalog};
use sottovoce_server::federation::catalog::HEADER;
use sottovoce_text::{HashedNgrams, NgramConfig};
use std::fmt::Write;

/// The catalog as text.
pub(super) fn of(args: &Create, common: &Common) -> Result<String> {
    if let Some(path) = &args.catalog {
        let mut text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        if let Some(titles) = &args.titles {
            let titles = std::fs::read_to_string(titles).with_context(|| titles.display().to_string())?;
            let encoder = HashedNgrams::fit(NgramConfig::default(), titles.lines())?;
            let end = if text.ends_with('\n') { "" } else { "\n" };
            text = format!("{text}{end}{}", encoder.catalog_text());
        }
        return Ok(text);
    }
    let data = args.catalog_of.as_deref().unwrap_or_default();
    if people::are_clicks(data, args.taxonomy.as_deref()) {
        let people = people::read(data, args.taxonomy.as_deref(), common)?;
        let encoder = people.title_encoder(NgramConfig::default().dim)?;
        return Ok(text_of(&people.catalog) + &encoder.catalog_text());
    }
    let dataset = load(data, &args.loading.options(common), &args.loading.cleaning.cleaning(common.seed), common)?;
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
