//! One reader a kind of file; each fills a [`DatasetBuilder`](crate::builder::DatasetBuilder).

pub(crate) mod delimited;
pub(crate) mod json;
pub(crate) mod librarything;
pub(crate) mod msweb;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
pub(crate) mod sequences;
