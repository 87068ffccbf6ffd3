//! The owner's click log on a device: interests and pages, computed here.

use crate::args::ClickLog;
use crate::output::usage;
use anyhow::Result;
use sottovoce_data::interests::{ClickReport, ClickRules, Clicks, Interests, Taxonomy, read_clicks};
use sottovoce_data::parse_time;
use sottovoce_device::{Items, ReadPage, Reading};
use std::path::Path;

/// What a log says about its owner. Without a taxonomy the categories are those of the federation's catalog.
pub(crate) fn read(file: &Path, args: &ClickLog, items: &Items) -> Result<(Reading, ClickReport)> {
    let rules = match &args.taxonomy {
        Some(taxonomy) => ClickRules::new(Taxonomy::read(taxonomy)?),
        None => {
            let named = |row: usize| (items.id(row), items.title(row).unwrap_or_else(|| items.id(row)));
            let catalog = Taxonomy::flat("the federation's catalog", (0..items.len()).map(named))?;
            ClickRules::new(catalog).known_categories_only()
        }
    };
    let at = match &args.at {
        None => None,
        Some(text) => match parse_time(text) {
            Some(at) => Some(at),
            None => return usage(format!("--at {text}: expected a date or seconds since 1970")),
        },
    };
    let rules = rules.of_one_person().at(at);
    let clicks = read_clicks(file, &rules)?;
    Ok((reading(&clicks, rules.taxonomy()), clicks.report().clone()))
}

/// The interests and pages of the only person of a log.
fn reading(clicks: &Clicks, taxonomy: &Taxonomy) -> Reading {
    let id = |category: u32| taxonomy.categories()[category as usize].id.clone();
    let categories = clicks.page_categories();
    let page = |&page: &u32| ReadPage {
        title: clicks.title(page).to_owned(),
        categories: categories[page as usize].iter().map(|&category| id(category)).collect(),
    };
    let recent = clicks.recent_pages(&categories);
    Reading {
        interests: Interests::score(clicks).interested(0).map(id).collect(),
        pages: recent.iter().flatten().map(page).collect(),
    }
}
