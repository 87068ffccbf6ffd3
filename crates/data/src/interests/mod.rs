//! From clicks to interests: which categories of a taxonomy a person cares for.
//!
//! [`Taxonomy`] is a tree of categories, the IAB Content Taxonomy as published or one's own. [`read_clicks`] reads a
//! click log and leaves out what must not or cannot be used, counted by reason; [`Interests::score`] turns what is left
//! into a score for each person and category.
//!
//! ```
//! use sottovoce_data::interests::{ClickRules, Interests, Taxonomy, clicks_of_bytes};
//! let taxonomy = Taxonomy::parse("own", "id\tparent\tname\n1\t\tSports\n2\t1\tSkiing\n3\t\tPolitics\n".as_bytes())?;
//! let log = "user\ttime\tpage\tcategories\tseconds\n\
//!            anna\t2024-01-30\ta\tSkiing\t40\nanna\t2024-01-29\tb\t2\t25\nanna\t2024-01-29\tc\tPolitics\t90\n";
//! let clicks = clicks_of_bytes("log.tsv", log.as_bytes(), &ClickRules::new(taxonomy))?;
//! assert_eq!(clicks.report().sensitive, 1); // a page on politics is dropped before anything else
//! let interests = Interests::score(&clicks);
//! let skiing = &interests.of(0)[0];
//! assert_eq!((skiing.recency, skiing.frequency, skiing.score()), (5, 1, 6));
//! # Ok::<(), sottovoce_data::DataError>(())
//! ```

mod clicks;
mod data_set;
mod mind;
mod readers;
mod recent;
mod score;
mod source;
mod synthetic;
mod taxonomy;
#[cfg(test)]
mod tests;

pub use clicks::{Click, ClickColumns, ClickReport, ClickRules, Clicks, MOST_SECONDS};
pub use mind::mind_taxonomy;
pub use readers::{click_column, clicks_of_bytes, read_clicks, town_clicks};
pub use recent::PAGES_A_CATEGORY;
pub use score::{Interest, Interests, THRESHOLD, frequency, recency};
pub use source::ClickSource;
pub use synthetic::SyntheticClicks;
pub use taxonomy::{Category, CategoryMapping, SENSITIVE, Taxonomy};
