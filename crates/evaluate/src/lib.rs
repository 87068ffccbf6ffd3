//! Metrics, significance, tables, plots and the HTML report.

pub mod report;
