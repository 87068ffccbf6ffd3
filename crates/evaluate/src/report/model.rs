//! What a report holds.

use super::plot::Plot;
use super::table::Table;
use serde::{Deserialize, Serialize};

/// Everything one report shows. Prose may use `**strong**` and `` `code` ``.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The title.
    pub title: String,
    /// A line above the title: what kind of report this is.
    pub subtitle: String,
    /// The result in sentences, the most important first.
    pub summary: Vec<String>,
    /// The few numbers worth large type.
    pub figures: Vec<KeyFigure>,
    /// The body.
    pub sections: Vec<Section>,
    /// One card a data set.
    pub data_cards: Vec<DataCard>,
    /// Names and texts of the configuration files, exactly as they were used.
    pub configuration: Vec<(String, String)>,
    /// Version, seed, fingerprint, command line, start, duration.
    pub provenance: Vec<(String, String)>,
}

/// A number in large type.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KeyFigure {
    /// What it is.
    pub label: String,
    /// The number as it is to be read, with its unit.
    pub value: String,
    /// What it compares with, or whose it is.
    pub detail: String,
}

impl KeyFigure {
    /// A number in large type.
    pub fn new(label: impl Into<String>, value: impl Into<String>, detail: impl Into<String>) -> KeyFigure {
        KeyFigure { label: label.into(), value: value.into(), detail: detail.into() }
    }
}

/// A titled part of the body.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// Prose under the heading; an empty line starts a new paragraph.
    pub text: String,
    /// Tables, plots and remarks in order; plots that follow each other rank side by side where there is room.
    pub blocks: Vec<Block>,
}

impl Section {
    /// A section with a heading only.
    pub fn new(title: impl Into<String>) -> Section {
        Section { title: title.into(), ..Section::default() }
    }

    setters! {
        /// Sets the prose under the heading.
        fn text(self, text: impl Into<String>) { self.text = text.into() }
        /// Adds a table.
        fn table(self, table: Table) { self.blocks.push(Block::Table(table)) }
        /// Adds a plot.
        fn plot(self, plot: Plot) { self.blocks.push(Block::Plot(plot)) }
        /// Adds a remark that is set off from the text.
        fn note(self, note: impl Into<String>) { self.blocks.push(Block::Note(note.into())) }
    }
}

/// A part of a section.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// A table.
    Table(Table),
    /// A plot.
    Plot(Plot),
    /// A remark that is set off from the text.
    Note(String),
}

/// What a reader must know of one data set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DataCard {
    /// The name of the set.
    pub name: String,
    /// Where it comes from, or what it is.
    #[serde(default)]
    pub source: String,
    /// People after cleaning.
    pub users: u64,
    /// Items after cleaning.
    pub items: u64,
    /// Interactions after cleaning.
    pub interactions: u64,
    /// First and last interaction, in Unix seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<(i64, i64)>,
    /// A hash of the cleaned data.
    #[serde(default)]
    pub fingerprint: String,
    /// What was filtered, in words, with counts of what was dropped.
    #[serde(default)]
    pub filters: Vec<String>,
    /// How the set was split, in words.
    #[serde(default)]
    pub split: String,
    /// Interactions in each part: train, validation, test.
    #[serde(default)]
    pub parts: Vec<(String, u64)>,
    /// Anything else, name and value.
    #[serde(default)]
    pub facts: Vec<(String, String)>,
}

impl DataCard {
    /// Interactions as a share of all pairs of a person and an item.
    pub fn density(&self) -> Option<f64> {
        let pairs = self.users as f64 * self.items as f64;
        (pairs > 0.0).then(|| self.interactions as f64 / pairs)
    }
}

impl Report {
    /// An empty report.
    pub fn new(title: impl Into<String>) -> Report {
        Report { title: title.into(), ..Report::default() }
    }

    setters! {
        /// Sets the line above the title.
        fn subtitle(self, subtitle: impl Into<String>) { self.subtitle = subtitle.into() }
        /// Adds a sentence to the summary.
        fn sentence(self, sentence: impl Into<String>) { self.summary.push(sentence.into()) }
        /// Adds a number in large type.
        fn figure(self, figure: KeyFigure) { self.figures.push(figure) }
        /// Adds a section.
        fn section(self, section: Section) { self.sections.push(section) }
        /// Adds a section that holds one table.
        fn table(self, title: impl Into<String>, table: Table) {
            self.sections.push(Section::new(title).table(table))
        }
        /// Adds a data set's card.
        fn data_card(self, card: DataCard) { self.data_cards.push(card) }
        /// Adds a configuration text under a name.
        fn configuration(self, name: impl Into<String>, text: impl Into<String>) {
            self.configuration.push((name.into(), text.into()))
        }
        /// Adds a fact about how the report came to be.
        fn provenance(self, name: impl Into<String>, value: impl Into<String>) {
            self.provenance.push((name.into(), value.into()))
        }
    }

    /// All tables, in order.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.blocks().filter_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        })
    }

    /// All plots, in order.
    pub fn plots(&self) -> impl Iterator<Item = &Plot> {
        self.blocks().filter_map(|block| match block {
            Block::Plot(plot) => Some(plot),
            _ => None,
        })
    }

    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.sections.iter().flat_map(|section| &section.blocks)
    }
}
