//! The pages that people read last.

use super::clicks::Clicks;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Pages of a category that are kept of a person. A model reads five; when those about one category are left out, five
/// of the others are there.
pub const PAGES_A_CATEGORY: usize = 5;

impl Clicks {
    /// By page the categories that it is about, in the order in which clicks name them.
    pub fn page_categories(&self) -> Vec<Vec<u32>> {
        let mut all: Vec<Vec<u32>> = vec![Vec::new(); self.pages().len()];
        for click in self.iter() {
            let of_page = &mut all[click.page as usize];
            for &category in click.categories {
                if !of_page.contains(&category) {
                    of_page.push(category);
                }
            }
        }
        all
    }

    /// By person the pages read last, oldest first and each once: the last [`PAGES_A_CATEGORY`] of each category. Of
    /// two read in the same second the one with the greater id counts as the later, so that a person's pages do not
    /// depend on who else is in the log. `categories` are those of [`page_categories`](Self::page_categories).
    pub fn recent_pages(&self, categories: &[Vec<u32>]) -> Vec<Vec<u32>> {
        let mut visits: Vec<Vec<(i64, u32)>> = vec![Vec::new(); self.people().len()];
        for click in self.iter() {
            visits[click.person as usize].push((click.time, click.page));
        }
        let mut counts: FxHashMap<u32, usize> = FxHashMap::default();
        let last = |mut visits: Vec<(i64, u32)>| {
            visits.sort_unstable_by_key(|&(time, page)| Reverse((time, self.pages().get(page as usize))));
            counts.clear();
            let mut pages: Vec<u32> = Vec::new();
            for (_, page) in visits {
                let about = &categories[page as usize];
                let wanted = about.iter().any(|category| counts.get(category).is_none_or(|&n| n < PAGES_A_CATEGORY));
                if wanted && !pages.contains(&page) {
                    pages.push(page);
                    about.iter().for_each(|&category| *counts.entry(category).or_default() += 1);
                }
            }
            pages.reverse();
            pages
        };
        visits.into_iter().map(last).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::interests::{ClickRules, Taxonomy, clicks_of_bytes};

    #[test]
    fn the_last_five_pages_of_each_category_are_kept() {
        let taxonomy = Taxonomy::parse("own", "id\tparent\tname\n1\t\tSkiing\n2\t\tChess\n".as_bytes()).unwrap();
        let mut log = "user\ttime\tpage\tcategories\n".to_owned();
        for (time, page, categories) in [
            (1, "old", "2"),
            (2, "a", "1"),
            (3, "b", "1"),
            (4, "c", "1|2"),
            (5, "a", "1"),
            (6, "d", "1"),
            (6, "e", "1"),
        ] {
            log += &format!("x\t{}\t{page}\t{categories}\n", 1_700_000_000 + time);
        }
        log += "x\t1700000007\tf\t1\ny\t1700000000\told\t2\n";
        let clicks = clicks_of_bytes("log.tsv", log.as_bytes(), &ClickRules::new(taxonomy)).unwrap();
        let categories = clicks.page_categories();
        let named = |pages: &Vec<u32>| pages.iter().map(|&page| &clicks.pages()[page as usize]).collect::<Vec<_>>();
        let recent = clicks.recent_pages(&categories);
        // Of skiing f, e, d, a and c; b is the sixth. Of chess c and the old one.
        assert_eq!(named(&recent[0]), ["old", "c", "a", "d", "e", "f"]);
        assert_eq!(named(&recent[1]), ["old"]);
    }
}
