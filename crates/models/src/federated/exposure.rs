//! What an update says about a person, for the audit.

/// A table whose rows say something about the person who sends them.
///
/// A server reads three things: which rows are there, the sign of a bias, and the direction of a vector. The audit's
/// attacks follow from that, so that every model that declares its exposure can be audited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// Index of the table in the shared model's layout.
    pub table: usize,
    /// What its rows are.
    pub rows: RowMeaning,
    /// Whether the last column is a bias, whose change is positive for items that the person has.
    pub bias: bool,
}

/// What the rows of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowMeaning {
    /// A row for each item.
    Items,
    /// A row for each feature of the catalog's facts.
    Features,
    /// A row for each cluster of devices: which row leaves tells the device's cluster.
    Clusters,
}
