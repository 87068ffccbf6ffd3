//! Loading, cleaning and splitting of interactions; interests from click logs; knowledge graphs; the synthetic town.
//!
//! [`load`] reads public data sets and any delimited text into [`Interactions`]; [`clean`] filters them; [`split`]
//! splits each user's history for training and evaluation. [`fingerprint`] identifies the data in a report,
//! [`describe`] computes their statistics, and [`write_tsv`] and [`write_split`] write them.
//!
//! ```
//! use sottovoce_data::{Cleaning, LoadOptions, Split, clean, load_bytes, split};
//! let text = b"anna\tduomo\t5\t100\nanna\tcorso\t4\t200\nbruno\tduomo\t3\t150\n";
//! let set = load_bytes("example", &[("visits.tsv", text)], &LoadOptions::default())?;
//! let (interactions, _) = clean(set.interactions, &Cleaning::default());
//! let parts = split(&interactions, Split::Last, None, 0);
//! assert_eq!(parts.train.of(0), [1]); // anna was at the duomo (item 1) before she was at the corso
//! assert_eq!((parts.test.of(0), parts.without_test), (&[0][..], 1));
//! # Ok::<(), sottovoce_data::DataError>(())
//! ```

mod builder;
mod clean;
mod columns;
mod date;
mod describe;
mod detect;
mod error;
mod fields;
mod files;
mod fingerprint;
mod folder;
mod format;
mod graph;
pub mod images;

mod interactions;
pub mod interests;
mod intern;
mod item_metadata;
mod layout;
mod lines;
mod load;
mod load_report;
mod number;
mod preview;
mod public_datasets;
mod readers;
mod split;
mod text;
mod time_unit;
pub mod town;
mod write;

pub use clean::{Cleaning, CleaningReport, Repeats, UserSample, clean};
pub use columns::{Column, Columns, LINE_ORDER};
pub use date::{format_date, parse_time};
pub use describe::{Description, HistoryLengths, Popularity, Ratings, describe, describe_interactions};
pub use error::{BadLine, DataError, Remedy};
pub use fingerprint::fingerprint;
pub use format::Format;
pub use graph::{
    AUXILIARY, FactsDescription, Frequent, GraphConfig, GraphReport, MOST_HOPS, WithoutFacts, describe_facts,
    graph_of_bytes, read_graph,
};
pub use interactions::{Dataset, Interactions, canonical_order};
pub use load::{DATA_DIR, LoadOptions, find_source, load, load_bytes, open, read_catalog};
pub use load_report::{ColumnReport, LoadReport, SkippedLines};
pub use public_datasets::{PUBLIC_DATASETS, PublicDataset, public_dataset};
pub use split::{CatalogRule, ColdItems, DataSplit, Split, SplitConfig, split, split_with};
pub use write::{write_parquet, write_split, write_tsv};
