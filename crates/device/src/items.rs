//! The catalog on a device: the server's text and an index of its lines.

use crate::bounds::ID_BYTES;
use sottovoce_core::{CATALOG_HEADER, Facts, FactsError};
use sottovoce_models::federated::{self, FeatureUse};
use sottovoce_text::HashedNgrams;
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};
use thiserror::Error;

/// An invalid catalog.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CatalogError {
    /// Not text.
    #[error("the catalog is not UTF-8")]
    Text,
    /// Too large for this device.
    #[error("a catalog of {found} bytes, this device stores at most {most}")]
    TooLarge {
        /// Its bytes.
        found: u64,
        /// The limit.
        most: u64,
    },
    /// The first line is not the header.
    #[error("the catalog's first line is {0:?}, expected \"item\\ttitle\\tcategories\"")]
    Header(String),
    /// A line without an id, or with too long a one.
    #[error("line {0} of the catalog: an item's id has 1 to {ID_BYTES} bytes")]
    Id(usize),
    /// Its facts about items cannot be read.
    #[error("the catalog's facts, {0}")]
    Facts(#[from] FactsError),
    /// Its encoder of titles cannot be read.
    #[error("the catalog's {0}")]
    Encoder(String),
    /// Two items have the same id.
    #[error("the catalog has item {0:?} twice")]
    Twice(String),
}

/// What a word of the owner's means in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// This item: the word is its id, or its title and no other item's.
    Found(u32),
    /// Several items have this title.
    Ambiguous(Vec<u32>),
    /// None; these have titles that contain it.
    Unknown(Vec<u32>),
}

/// How many similar items [`Items::lookup`] names.
const SIMILAR: usize = 5;

const HEADER: [&str; 3] = ["item", "title", "categories"];

/// The items that the federation knows, one for each row of the shared model's item tables.
///
/// ```
/// let items = sottovoce_device::Items::parse(b"item\ttitle\tcategories\n17\tCabiria\tdrama|italian\n4\n".to_vec())?;
/// assert_eq!((items.len(), items.find("4")), (2, Some(1)));
/// assert_eq!((items.title(0), items.title(1)), (Some("Cabiria"), None));
/// assert_eq!(items.categories(0).collect::<Vec<_>>(), ["drama", "italian"]);
/// # Ok::<(), sottovoce_device::CatalogError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Items {
    /// The server's text, without the facts.
    text: String,
    /// Facts about the items, if there are any.
    facts: Option<Arc<Facts>>,
    /// The encoder of titles, if the catalog has one.
    encoder: Option<Arc<HashedNgrams>>,
    /// The items' content: facts, or else categories and titles. Computed on first use: most models do not need it.
    content: OnceLock<Arc<Facts>>,
    /// Offset of each item's line.
    starts: Vec<u32>,
    /// Rows by ascending id.
    by_id: Vec<u32>,
}

impl PartialEq for Items {
    /// All else follows from the text.
    fn eq(&self, other: &Self) -> bool {
        (&self.text, &self.facts) == (&other.text, &other.facts)
    }
}

impl Items {
    /// Reads the text that a server sends: a header, then one line for each row.
    ///
    /// # Errors
    /// If it is invalid; names the line.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, CatalogError> {
        let most = u64::from(u32::MAX);
        if bytes.len() as u64 > most {
            return Err(CatalogError::TooLarge { found: bytes.len() as u64, most });
        }
        let mut text = String::from_utf8(bytes).map_err(|_| CatalogError::Text)?;
        let (encoder, rest) =
            HashedNgrams::of_catalog(&text).map_err(|error| CatalogError::Encoder(error.to_string()))?;
        let (encoder, end) = (encoder.map(Arc::new), rest.len());
        text.truncate(end);
        let mut facts = None;
        if let Some((known, about_items)) = Facts::of_catalog(&text)? {
            text = without_facts(about_items);
            facts = Some(Arc::new(known));
        }
        let header = text.lines().next().unwrap_or_default();
        if header.split('\t').ne(HEADER) {
            return Err(CatalogError::Header(header.chars().take(80).collect()));
        }
        let content = OnceLock::new();
        let mut items = Self { starts: Vec::new(), by_id: Vec::new(), text, facts, encoder, content };
        items.starts = items.line_starts()?;
        let mut by_id: Vec<u32> = (0..items.starts.len() as u32).collect();
        by_id.sort_unstable_by(|&a, &b| items.id(a as usize).cmp(items.id(b as usize)));
        for pair in by_id.windows(2) {
            if items.id(pair[0] as usize) == items.id(pair[1] as usize) {
                return Err(CatalogError::Twice(items.id(pair[0] as usize).to_owned()));
            }
        }
        items.starts.shrink_to_fit();
        items.by_id = by_id;
        Ok(items)
    }

    fn line_starts(&self) -> Result<Vec<u32>, CatalogError> {
        let mut starts = Vec::new();
        let mut at = self.text.find('\n').map_or(self.text.len(), |end| end + 1);
        while at < self.text.len() {
            let id = field(&self.text[at..], 0);
            if id.is_empty() || id.len() > ID_BYTES {
                return Err(CatalogError::Id(starts.len() + 2));
            }
            starts.push(at as u32);
            at = self.text[at..].find('\n').map_or(self.text.len(), |end| at + end + 1);
        }
        Ok(starts)
    }

    /// The text it was read from, or one that reads the same.
    pub fn text(&self) -> Cow<'_, str> {
        let text = match &self.facts {
            None => Cow::Borrowed(self.text.as_str()),
            Some(facts) => {
                let mut text = format!("{CATALOG_HEADER}\n");
                for row in 0..self.len() {
                    let [id, title, categories] = [0, 1, 2].map(|column| self.field(row, column));
                    let _ = writeln!(text, "{id}\t{title}\t{categories}\t{}", facts.item_text(row));
                }
                text.push_str(&facts.features_text());
                Cow::Owned(text)
            }
        };
        match &self.encoder {
            None => text,
            Some(encoder) => Cow::Owned(text.into_owned() + &encoder.catalog_text()),
        }
    }

    /// Facts about the items, for models that need them.
    pub fn facts(&self) -> Option<&Arc<Facts>> {
        self.facts.as_ref()
    }

    /// The encoder of titles, for models that read them.
    pub fn encoder(&self) -> Option<&HashedNgrams> {
        self.encoder.as_deref()
    }

    /// What is known of the items' content: the facts, or else categories and titles as facts. As
    /// [`Catalog::content`](sottovoce_core::Catalog::content) has it.
    pub fn content(&self) -> &Arc<Facts> {
        self.content.get_or_init(|| match &self.facts {
            Some(facts) if facts.features() > 0 => Arc::clone(facts),
            _ => Arc::new(Facts::of_content((0..self.len()).map(|row| (self.categories(row), self.title(row))))),
        })
    }

    /// What a model of this name uses of the catalog, if there is any.
    pub fn features_for(&self, model: &str) -> Option<&Arc<Facts>> {
        match federated::find(model).ok()?.features {
            FeatureUse::None => None,
            FeatureUse::Content => Some(self.content()),
            FeatureUse::Facts => self.facts(),
        }
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Bytes on the heap, those of facts and encoder included.
    pub fn heap_bytes(&self) -> usize {
        let facts = self.facts.as_ref().map_or(0, |facts| facts.heap_bytes());
        let encoder = self.encoder.as_ref().map_or(0, |encoder| encoder.config().buckets);
        let content = self.content.get().filter(|_| self.facts.is_none()).map_or(0, |content| content.heap_bytes());
        let index = 4 * (self.starts.capacity() + self.by_id.capacity());
        self.text.capacity() + index + facts + encoder + content
    }

    fn field(&self, row: usize, column: usize) -> &str {
        field(&self.text[self.starts[row] as usize..], column)
    }

    /// An item's id.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn id(&self, row: usize) -> &str {
        self.field(row, 0)
    }

    /// An item's title, if it has one.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn title(&self, row: usize) -> Option<&str> {
        Some(self.field(row, 1)).filter(|title| !title.is_empty())
    }

    /// An item's categories.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn categories(&self, row: usize) -> impl Iterator<Item = &str> {
        self.field(row, 2).split('|').filter(|category| !category.is_empty())
    }

    /// The row of an id.
    pub fn find(&self, id: &str) -> Option<u32> {
        let index = self.by_id.binary_search_by(|&row| self.id(row as usize).cmp(id)).ok()?;
        Some(self.by_id[index])
    }

    /// The item that an owner means by an id or a title. Titles are compared without regard to case.
    pub fn lookup(&self, word: &str) -> Lookup {
        if let Some(row) = self.find(word) {
            return Lookup::Found(row);
        }
        let asked = word.trim().to_lowercase();
        let titled = |test: &dyn Fn(&str) -> bool| -> Vec<u32> {
            let rows = (0..self.len()).filter(|&row| self.title(row).is_some_and(|title| test(&title.to_lowercase())));
            rows.map(|row| row as u32).collect()
        };
        let same = titled(&|title| title == asked);
        match same[..] {
            [only] => Lookup::Found(only),
            [] if asked.is_empty() => Lookup::Unknown(Vec::new()),
            [] => {
                let mut similar = titled(&|title| title.contains(&asked));
                similar.truncate(SIMILAR);
                Lookup::Unknown(similar)
            }
            _ => Lookup::Ambiguous(same),
        }
    }
}

/// The first three columns of each line; facts are stored more compactly elsewhere.
fn without_facts(about_items: &str) -> String {
    let mut text = String::with_capacity(about_items.len());
    for line in about_items.lines() {
        let end = line.match_indices('\t').nth(2).map_or(line.len(), |(end, _)| end);
        text.push_str(&line[..end]);
        text.push('\n');
    }
    text.shrink_to_fit();
    text
}

/// A field of the first line of a text; empty past the last.
fn field(text: &str, column: usize) -> &str {
    let line = text.split('\n').next().unwrap_or_default();
    line.trim_end_matches('\r').split('\t').nth(column).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sottovoce_core::{Catalog, Categories};

    fn error(text: &str) -> String {
        Items::parse(text.as_bytes().to_vec()).unwrap_err().to_string()
    }

    #[test]
    fn facts_are_read_and_written_back() {
        let text = "item\ttitle\tcategories\tfacts\n7\tHeat\tCrime\t0 1\n9\t\t\t\n\nhops\twords\n1\tby: Mann\n2\tby > in: Ohio\n";
        let items = Items::parse(text.as_bytes().to_vec()).unwrap();
        let facts = items.facts().unwrap();
        assert_eq!((items.len(), facts.of(0).to_vec(), facts.name(1).as_str()), (2, vec![0, 1], "by > in: Ohio"));
        assert_eq!((items.title(0), items.categories(0).collect::<Vec<_>>()), (Some("Heat"), vec!["Crime"]));
        assert_eq!(items.text(), text);
        assert_eq!(Items::parse(items.text().as_bytes().to_vec()).unwrap(), items);
        let wrong = error(&text.replace("0 1", "0 7"));
        assert!(wrong.starts_with("the catalog's facts, line 2: "), "{wrong}");
    }

    /// The simulator's content comes from other columns, and is the same.
    #[test]
    fn content_is_facts_or_categories_or_nothing() {
        let parse = |text: &str| Items::parse(text.as_bytes().to_vec()).unwrap();
        let items = parse("item\ttitle\tcategories\n7\tHeat (1995)\tCrime|Drama\n9\t\t\n4\t\tAction|Crime\n");
        let mut categories = Categories::new(["unused", "Drama", "Crime", "Action"].into_iter().collect());
        [vec![1, 2], vec![], vec![3, 2]].into_iter().for_each(|of_item| categories.push(of_item));
        let ids = ["7", "9", "4"].into_iter().collect();
        let titles = Some(["Heat (1995)", "", ""].into_iter().collect());
        let catalog = Catalog { categories: Some(categories), titles, ..Catalog::of_ids(ids) };
        assert_eq!(*items.content(), catalog.content());
        assert_eq!((items.content().name(0).as_str(), items.content().of(0).to_vec()), ("Action", vec![1, 2, 3, 4]));
        let bare = parse("item\ttitle\tcategories\n7\n9\n");
        assert_eq!((bare.content().items(), bare.content().features()), (2, 0));
        assert_eq!((bare.features_for("fpl"), bare.features_for("kgflex"), bare.features_for("?")), (None, None, None));
        assert!(Arc::ptr_eq(bare.features_for("refrs").unwrap(), bare.content()));
    }

    #[test]
    fn an_encoder_is_read_and_written_back() {
        let encoder = HashedNgrams::fit(Default::default(), ["Skis tested", "Skis compared"]).unwrap();
        for about in [
            "item\ttitle\tcategories\n7\tSkiing\t\n",
            "item\ttitle\tcategories\tfacts\n7\tSkiing\t\t0\n\nhops\twords\n1\tsnow\n",
        ] {
            let text = format!("{about}{}", encoder.catalog_text());
            let items = Items::parse(text.clone().into_bytes()).unwrap();
            assert_eq!((items.len(), items.encoder(), items.text().as_ref()), (1, Some(&encoder), text.as_str()));
        }
        let wrong = error("item\ttitle\tcategories\n7\n\nencoder\tnothing\n");
        assert!(wrong.starts_with("the catalog's encoder: not Base64"), "{wrong}");
    }

    #[test]
    fn a_word_is_an_id_or_a_title() {
        let text = "item\ttitle\tcategories\n7\tHeat\t\n9\tAlien (1979)\t\n4\tRan\t\n5\tran\t\nRan\tMatrix\t\n8\t\t\n";
        let items = Items::parse(text.as_bytes().to_vec()).unwrap();
        assert_eq!((items.lookup("9"), items.lookup(" heat ")), (Lookup::Found(1), Lookup::Found(0)));
        assert_eq!((items.lookup("Ran"), items.lookup("RAN")), (Lookup::Found(4), Lookup::Ambiguous(vec![2, 3])));
        assert_eq!((items.lookup("alien"), items.lookup("")), (Lookup::Unknown(vec![1]), Lookup::Unknown(vec![])));
    }

    #[test]
    fn rejects_invalid_catalogs() {
        assert!(error("id\ttitle\n").starts_with("the catalog's first line is \"id\\ttitle\""));
        assert!(error("").contains("first line"));
        let header = "item\ttitle\tcategories\n";
        assert_eq!(
            error(&format!("{header}a\n\tb\n")),
            format!("line 3 of the catalog: an item's id has 1 to {ID_BYTES} bytes")
        );
        assert_eq!(error(&format!("{header}a\nb\na\n")), "the catalog has item \"a\" twice");
        assert_eq!(Items::parse(vec![0xff]).unwrap_err(), CatalogError::Text);
        assert!(Items::parse(header.as_bytes().to_vec()).unwrap().is_empty());
    }
}
