//! Trees of categories.

use crate::error::{DataError, Result, shorten};
use crate::fields::{Delimiter, Fields};
use crate::files::unpack;
use crate::lines::Lines;
use crate::text::{decode, plain};
use crate::town::taxonomy::{PAGE_TREE, TOPICS_A_SECTION};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Names of branches that are sensitive unless users say otherwise: health, alcohol, smoking, politics, gambling,
/// religion, as the IAB's taxonomies 2.x and 3.x, Microsoft News and the synthetic town call them.
pub const SENSITIVE: &[&str] = &[
    "Medical Health",
    "Health Insurance",
    "Health",
    "Alcoholic Beverages",
    "Wine & Beer",
    "Smoking Cessation",
    "Politics",
    "Political Event",
    "Elections",
    "Casinos & Gambling",
    "Poker and Professional Gambling",
    "Gambling",
    "Religion & Spirituality",
    "Religious Events",
    "Religious (Music and Audio)",
    "Religion",
    "Sensitive Topics",
    "Public Affairs",
    "newspolitics",
    "elections-2020-us",
];

/// A category.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Category {
    /// Its id in the published file.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The category above it; `None` for main categories.
    pub parent: Option<u32>,
    /// 1 for main categories, one more at each step down.
    pub tier: u32,
}

/// A tree of categories. Main categories hang from a root that is no category.
#[derive(Clone, Debug)]
pub struct Taxonomy {
    categories: Vec<Category>,
    by_id: FxHashMap<String, u32>,
    /// By plain name; `None` where several categories have it.
    by_name: FxHashMap<String, Option<u32>>,
}

/// One row of a file, before parents are known.
struct Row {
    line: u64,
    id: String,
    parent: String,
    name: String,
}

impl Taxonomy {
    /// Reads a taxonomy: the IAB Content Taxonomy 2.x or 3.x as published, or any delimited text whose header names
    /// columns `id`, `parent` and `name`.
    ///
    /// # Errors
    /// If the file cannot be read, a column is missing, an id comes twice, or a category is below itself.
    pub fn read(path: &Path) -> Result<Self> {
        let label = path.display().to_string();
        let file = File::open(path).map_err(|error| DataError::io(&label, error))?;
        Self::parse(&label, unpack(Box::new(file)).map_err(|error| DataError::io(&label, error))?)
    }

    /// The same from any source; errors name it by the label.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(label: &str, source: impl Read) -> Result<Self> {
        let table = Table::read(label, source, &[&["uniqueid", "id"], &["parent", "parentid"], &["name", "category"]])?;
        let rows: Vec<Row> = table
            .rows
            .into_iter()
            .map(|(line, [id, parent, name])| Row { line, id, parent, name })
            .filter(|row| !row.id.is_empty())
            .collect();
        Self::build(label, &rows)
    }

    /// Categories without a tree, by id and name: those of a catalog.
    ///
    /// # Errors
    /// If there are none, or an id comes twice; names the catalog by the label.
    pub fn flat<'a>(label: &str, categories: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let row = |(line, (id, name)): (u64, (&str, &str))| Row {
            line,
            id: id.to_owned(),
            parent: String::new(),
            name: name.to_owned(),
        };
        let rows: Vec<Row> = (1..).zip(categories).map(row).collect();
        Self::build(label, &rows)
    }

    /// The synthetic town's tree of page categories.
    pub fn town() -> Self {
        let (mut rows, mut line) = (Vec::new(), 0);
        for (section, (name, _, topics)) in PAGE_TREE.iter().enumerate() {
            let mut add = |id: String, parent: String, name: &str| {
                line += 1;
                rows.push(Row { line, id, parent, name: name.to_owned() });
            };
            add(format!("s{section}"), String::new(), name);
            for (topic, name) in topics.iter().enumerate() {
                add((section * TOPICS_A_SECTION + topic).to_string(), format!("s{section}"), name);
            }
        }
        Self::build("synth:town", &rows).expect("the town's tree is a tree")
    }

    fn build(label: &str, rows: &[Row]) -> Result<Self> {
        if rows.is_empty() {
            return Err(DataError::Empty(label.to_owned()));
        }
        let wrong =
            |row: &Row, field: &str, expected: &str, found: &str| wrong_line(label, row.line, field, expected, found);
        let mut by_id = FxHashMap::default();
        let mut by_name: FxHashMap<String, Option<u32>> = FxHashMap::default();
        for (number, row) in (0..).zip(rows) {
            if by_id.insert(row.id.clone(), number).is_some() {
                return Err(wrong(row, "id", "an id that no other category has", &row.id));
            }
            if row.name.is_empty() {
                return Err(wrong(row, "name", "a name", ""));
            }
            by_name.entry(plain(&row.name)).and_modify(|other| *other = None).or_insert(Some(number));
        }
        let mut categories = Vec::with_capacity(rows.len());
        for row in rows {
            let parent = match row.parent.as_str() {
                "" => None,
                id => {
                    let known = by_id.get(id).copied();
                    Some(known.ok_or_else(|| wrong(row, "parent", "the id of a category", id))?)
                }
            };
            categories.push(Category { id: row.id.clone(), name: row.name.clone(), parent, tier: 0 });
        }
        for (start, row) in rows.iter().enumerate() {
            let mut tier = 1;
            let mut at = categories[start].parent;
            while let Some(above) = at {
                tier += 1;
                if tier as usize > rows.len() {
                    return Err(wrong(row, "parent", "no category below itself", &row.parent));
                }
                at = categories[above as usize].parent;
            }
            categories[start].tier = tier;
        }
        Ok(Self { categories, by_id, by_name })
    }

    /// All categories, in the order of the file.
    pub fn categories(&self) -> &[Category] {
        &self.categories
    }

    /// The category of an id or, where only one has it, of a name.
    pub fn find(&self, text: &str) -> Option<u32> {
        let text = text.trim();
        self.by_id.get(text).copied().or_else(|| self.by_name.get(&plain(text)).copied().flatten())
    }

    /// All categories of this name, whatever their place in the tree.
    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = u32> + 'a {
        let name = plain(name);
        (0..).zip(&self.categories).filter(move |(_, category)| plain(&category.name) == name).map(|(number, _)| number)
    }

    /// A category and those above it, upwards.
    pub fn path(&self, category: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(category), |&at| self.categories[at as usize].parent)
    }

    /// The category itself or the one above it that is in this tier.
    pub fn in_tier(&self, category: u32, tier: u32) -> u32 {
        self.path(category).find(|&at| self.categories[at as usize].tier <= tier).unwrap_or(category)
    }

    /// Steps on the path from one category to another. Main categories are two steps apart, over the root; in a tree of
    /// four tiers no two categories are more than eight apart.
    pub fn distance(&self, one: u32, other: u32) -> u32 {
        let [one, other] = [one, other].map(|category| self.path(category).collect::<Vec<_>>());
        let shared = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
        (one.len() + other.len() - 2 * shared) as u32
    }

    /// Marks the categories of some branches, given by id or name. A name marks all branches that have it.
    ///
    /// # Errors
    /// If there is no such category.
    pub fn branches<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Vec<bool>> {
        let mut roots = vec![false; self.categories.len()];
        for name in names {
            let mut found = self.by_id.get(name.trim()).copied().into_iter().chain(self.named(name)).peekable();
            if found.peek().is_none() {
                let expected = "the id or name of a category of the taxonomy".to_owned();
                return Err(DataError::Specification("category", name.to_owned(), expected));
            }
            found.for_each(|category| roots[category as usize] = true);
        }
        Ok(self.below(&roots))
    }

    /// Marks the branches of [`SENSITIVE`], as far as this taxonomy has them.
    pub fn sensitive(&self) -> Vec<bool> {
        let mut roots = vec![false; self.categories.len()];
        for category in SENSITIVE.iter().flat_map(|name| self.named(name)) {
            roots[category as usize] = true;
        }
        self.below(&roots)
    }

    /// Marks all that is marked or below something marked.
    fn below(&self, roots: &[bool]) -> Vec<bool> {
        (0..self.categories.len() as u32).map(|category| self.path(category).any(|at| roots[at as usize])).collect()
    }
}

/// From categories of one taxonomy to those of another, such as the IAB's from 1.0 to 2.0.
#[derive(Clone, Debug, Default)]
pub struct CategoryMapping {
    targets: FxHashMap<String, Vec<u32>>,
}

impl CategoryMapping {
    /// Reads the IAB's file `Content_1.0_to_Content_2.0.tsv` as published, or any delimited text with columns `from`
    /// and `to`. One id may have several targets.
    ///
    /// # Errors
    /// If the file cannot be read, a column is missing, or a target is not in the taxonomy.
    pub fn read(path: &Path, taxonomy: &Taxonomy) -> Result<Self> {
        let label = path.display().to_string();
        let file = File::open(path).map_err(|error| DataError::io(&label, error))?;
        Self::parse(&label, unpack(Box::new(file)).map_err(|error| DataError::io(&label, error))?, taxonomy)
    }

    /// The same from any source.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(label: &str, source: impl Read, taxonomy: &Taxonomy) -> Result<Self> {
        let table = Table::read(label, source, &[&["content10uniqueid", "from"], &["content20uniqueid", "to"]])?;
        let mut targets: FxHashMap<String, Vec<u32>> = FxHashMap::default();
        for (line, [from, to]) in table.rows {
            // Some categories of 1.0 have no counterpart.
            if from.is_empty() || to.is_empty() {
                continue;
            }
            let Some(category) = taxonomy.find(&to) else {
                let expected = "a category of the taxonomy, of the version that the mapping is for";
                return Err(wrong_line(label, line, "target", expected, &to));
            };
            let known = targets.entry(from).or_default();
            if !known.contains(&category) {
                known.push(category);
            }
        }
        Ok(Self { targets })
    }

    /// What an id became; nothing if it is unknown.
    pub fn of(&self, id: &str) -> &[u32] {
        self.targets.get(id.trim()).map_or(&[], Vec::as_slice)
    }
}

/// An error in a line that cannot be skipped: a tree with a hole is another tree.
fn wrong_line(label: &str, line: u64, field: &str, expected: &str, found: &str) -> DataError {
    let found = shorten(found.as_bytes());
    DataError::Mismatch(label.to_owned(), format!("line {line}, field {field}: expected {expected}, found `{found}`"))
}

/// Some columns of a delimited file with a header, which may come after a line of titles.
struct Table<const N: usize> {
    rows: Vec<(u64, [String; N])>,
}

/// Lines among which the header must be.
const HEADER_WITHIN: u64 = 5;

impl<const N: usize> Table<N> {
    fn read(label: &str, source: impl Read, columns: &[&[&str]; N]) -> Result<Self> {
        let mut lines = Lines::new(source);
        let (mut fields, mut rows, mut found) = (Fields::default(), Vec::new(), None);
        let mut first = String::new();
        while let Some(line) = lines.next().map_err(|error| DataError::io(label, error))? {
            let (line, number) = (line.to_vec(), lines.number());
            match found {
                None => {
                    found = header(&line, columns, &mut fields);
                    if first.is_empty() {
                        first = shorten(&line);
                    }
                    if found.is_none() && number >= HEADER_WITHIN {
                        break;
                    }
                }
                Some((delimiter, places)) => {
                    if fields.split(&line, delimiter).is_err() {
                        let (expected, text) = ("quotes closed at the end of their field", decode(&line).0);
                        return Err(wrong_line(label, number, "row", expected, &text));
                    }
                    let text = |place: usize| match place < fields.len() {
                        true => decode(fields.get(&line, place)).0.trim().to_owned(),
                        false => String::new(),
                    };
                    rows.push((number, places.map(text)));
                }
            }
        }
        match found {
            Some(_) => Ok(Self { rows }),
            None if first.is_empty() => Err(DataError::Empty(label.to_owned())),
            None => {
                let wanted: Vec<&str> = columns.iter().filter_map(|names| names.last().copied()).collect();
                Err(DataError::NoColumn(label.to_owned(), wanted.join(", "), first))
            }
        }
    }
}

/// The delimiter and the places of the columns, if this line names them all.
fn header<const N: usize>(line: &[u8], columns: &[&[&str]; N], fields: &mut Fields) -> Option<(Delimiter, [usize; N])> {
    [b'\t', b',', b';'].into_iter().map(Delimiter::Byte).find_map(|delimiter| {
        fields.split(line, delimiter).ok()?;
        let names: Vec<String> = (0..fields.len()).map(|at| plain(&decode(fields.get(line, at)).0)).collect();
        let mut places = [0; N];
        for (place, accepted) in places.iter_mut().zip(columns) {
            *place = accepted.iter().find_map(|name| names.iter().position(|other| other == name))?;
        }
        Some((delimiter, places))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figure 5 of the thesis, with the two titles of the published files.
    fn technology() -> Taxonomy {
        let text = "Relational ID System\t\t\tContent Taxonomy\nUnique ID\tParent\tName\tTier 1\r\n\
                    596\t\tTechnology & Computing\tx\r\n597\t596\tArtificial Intelligence\r\n\
                    600\t599\tWeb Design and HTML\n599\t596\tInternet\n601\t596\tRobotics\n1\t\tAutomotive\n";
        Taxonomy::parse("own.tsv", text.as_bytes()).unwrap()
    }

    #[test]
    fn reads_published_files_and_measures_paths() {
        let tree = technology();
        let [ai, robotics, html, cars] = ["Artificial intelligence", "601", "Web Design and HTML", "automotive"]
            .map(|name| tree.find(name).unwrap());
        assert_eq!(tree.distance(ai, ai), 0);
        assert_eq!((tree.distance(ai, robotics), tree.distance(ai, html)), (2, 3));
        assert_eq!((tree.distance(html, cars), tree.distance(cars, html)), (4, 4));
        assert_eq!(tree.categories()[html as usize].tier, 3);
        assert_eq!(tree.in_tier(html, 1), tree.find("596").unwrap());
        assert_eq!(tree.in_tier(cars, 3), cars);
        assert_eq!(tree.find("Chess"), None);
    }

    #[test]
    fn marks_branches_with_all_below() {
        let tree = technology();
        let marked = tree.branches(["Internet"]).unwrap();
        let names = |marked: &[bool]| -> Vec<String> {
            let all = tree.categories().iter().zip(marked);
            all.filter(|(_, marked)| **marked).map(|(category, _)| category.name.clone()).collect()
        };
        assert_eq!(names(&marked), ["Web Design and HTML", "Internet"]);
        let error = tree.branches(["Interned"]).unwrap_err().to_string();
        assert!(error.contains("`Interned`"), "{error}");
        assert!(!tree.sensitive().contains(&true));
        let town = Taxonomy::town();
        let sensitive: Vec<&str> = town
            .categories()
            .iter()
            .zip(town.sensitive())
            .filter(|(_, is)| *is)
            .map(|(category, _)| category.name.as_str())
            .collect();
        assert_eq!(
            sensitive,
            ["Wine & Beer", "Health", "Symptoms", "Medication", "Sleep", "Diets", "Therapy"]
                .into_iter()
                .chain(["Public Affairs", "Elections", "Religion", "Gambling", "Town Council", "Taxes"])
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_name_that_two_categories_have_is_found_by_id_only() {
        let tree = Taxonomy::parse("own", "id,parent,name\n1,,Wine\n2,1,\"Red, dry\"\n3,,wine\n".as_bytes()).unwrap();
        assert_eq!((tree.find("Wine"), tree.find("3"), tree.find("red dry")), (None, Some(2), Some(1)));
        // Both are sensitive if the name is.
        assert_eq!(tree.branches(["Wine"]).unwrap(), [true, true, true]);
    }

    #[test]
    fn names_what_is_wrong_and_where() {
        let cases = [
            ("", "the file is empty"),
            ("id\tparent\tname\n", "the file is empty"),
            ("a\tb\n1\t2\n", "no column id, parentid, category; the columns are: a\\tb"),
            (
                "id\tparent\tname\n1\t\tA\n1\t\tB\n",
                "line 3, field id: expected an id that no other category has, found `1`",
            ),
            ("id\tparent\tname\n1\t9\tA\n", "line 2, field parent: expected the id of a category, found `9`"),
            ("id\tparent\tname\n1\t\t\n", "line 2, field name: expected a name"),
            (
                "id\tparent\tname\n1\t2\tA\n2\t1\tB\n",
                "line 2, field parent: expected no category below itself, found `2`",
            ),
            ("id\tparent\tname\n1\t1\tA\n", "expected no category below itself"),
        ];
        for (text, expected) in cases {
            let error = Taxonomy::parse("own.tsv", text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("own.tsv") && error.contains(expected), "{error}");
        }
    }

    #[test]
    fn maps_one_category_to_several() {
        let tree = technology();
        let text = "Content 1.0 Unique ID\tContent 1.0 IAB Category\tContent 2.0 Unique ID\nIAB19\tTechnology\t596\n\
                    IAB19\tTechnology\t599\nIAB19\tTechnology\t599\nIAB26\tIllegal\t\n";
        let mapping = CategoryMapping::parse("map.tsv", text.as_bytes(), &tree).unwrap();
        assert_eq!(mapping.of("IAB19"), [0, 3]);
        assert!(mapping.of("IAB26").is_empty() && mapping.of("IAB1").is_empty());
        let error = CategoryMapping::parse("map.tsv", "from\tto\nIAB1\t77\n".as_bytes(), &tree).unwrap_err();
        assert!(error.to_string().contains("line 2, field target"), "{error}");
    }
}
