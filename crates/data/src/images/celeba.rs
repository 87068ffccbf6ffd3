//! CelebA (Z. Liu, P. Luo, X. Wang, X. Tang: Deep learning face attributes in the wild, ICCV 2015) from its own files.
//!
//! `list_attr_celeba.txt` says for each image which of forty attributes it has, `identity_CelebA.txt` who is on it, and
//! a folder (`img_align_celeba`) holds the images. After the thesis (sec. 5.5.2) a random share of the images is kept,
//! people with few are left out, and the others are a client each.

use super::consecutive;
use super::decode::decode;
use super::error::{ImageDataError, Result};
use rayon::prelude::*;
use serde::Serialize;
use sottovoce_core::{Images, Rng};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

const ATTRIBUTES: &str = "list_attr_celeba.txt";
const IDENTITIES: &str = "identity_CelebA.txt";
const FOLDERS: [&str; 3] = ["img_align_celeba", "Img/img_align_celeba", "images"];
/// How many missing images are listed.
const NAMED: usize = 3;

/// Options for reading CelebA.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CelebA {
    /// The attribute to classify, such as `Smiling`.
    pub attribute: String,
    /// The attribute of images that are not sharp: `Blurry`.
    pub blurry: String,
    /// Height and width to bring images to.
    pub side: usize,
    /// 1 for grey values, 3 for colours.
    pub channels: usize,
    /// Share of the images that is kept, at random.
    pub share: f64,
    /// People with fewer images of those are left out.
    pub least: usize,
}

/// Images, and who is on which, one list a person.
#[derive(Debug)]
pub struct Faces {
    /// The images, in two classes.
    pub images: Images,
    /// Each person's images.
    pub people: Vec<Vec<u32>>,
}

/// One line of the list of attributes.
struct Listed {
    file: String,
    positive: bool,
    sharp: bool,
}

/// Whether a folder has the files of CelebA.
pub fn is_celeba(folder: &Path) -> bool {
    folder.join(ATTRIBUTES).is_file()
}

/// Reads CelebA from a folder; the seed is that of the random share.
///
/// # Errors
/// If a file is missing or not as its format asks, or an image is missing or cannot be decoded.
pub fn read_celeba(folder: &Path, wanted: &CelebA, seed: u64) -> Result<Faces> {
    let listed = attributes(folder, wanted)?;
    let identities = identities(folder)?;
    let people = chosen(folder, &listed, &identities, wanted, seed)?;
    let pictures = pictures(folder)?;
    let order: Vec<usize> = people.iter().flatten().copied().collect();
    let missing: Vec<&str> = order
        .par_iter()
        .map(|&place| listed[place].file.as_str())
        .filter(|file| !pictures.join(file).is_file())
        .collect();
    if let [first, ..] = missing[..] {
        let others = missing.len().min(NAMED);
        let what = match missing.len() {
            1 => first.to_owned(),
            count => format!("{} and others, {count} of {} images", missing[..others].join(", "), order.len()),
        };
        return Err(ImageDataError::missing(pictures.display(), what));
    }
    let values: Vec<Vec<u8>> = order
        .par_iter()
        .map(|&place| picture(&pictures.join(&listed[place].file), wanted))
        .collect::<Result<_, _>>()?;
    let (labels, sharp) = order.iter().map(|&place| (u8::from(listed[place].positive), listed[place].sharp)).unzip();
    let shape = [wanted.channels, wanted.side, wanted.side];
    let images = Images::new(shape, 2, values.concat(), labels)?.with_sharpness(sharp)?;
    Ok(Faces { people: consecutive(people.iter().map(Vec::len)), images })
}

fn text_of(folder: &Path, name: &str) -> Result<(PathBuf, String)> {
    let path = [folder.join(name), folder.join("Anno").join(name)].into_iter().find(|path| path.is_file());
    let Some(path) = path else {
        return Err(ImageDataError::Missing(
            folder.display().to_string(),
            name.to_owned(),
            " (CelebA's own files: https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html)".to_owned(),
        ));
    };
    let text = std::fs::read_to_string(&path).map_err(|error| ImageDataError::io(path.display(), error))?;
    Ok((path, text))
}

fn attributes(folder: &Path, wanted: &CelebA) -> Result<Vec<Listed>> {
    let (path, text) = text_of(folder, ATTRIBUTES)?;
    let wrong = |line: usize, problem: String| ImageDataError::content(path.display(), format!("line {line}"), problem);
    let mut lines = text.lines();
    let count: usize = lines
        .next()
        .and_then(|line| line.trim().parse().ok())
        .ok_or_else(|| wrong(1, "expected the number of images".to_owned()))?;
    let names: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let column = |name: &str| {
        let place = names.iter().position(|known| *known == name);
        place.ok_or_else(|| wrong(2, format!("no attribute {name}; there are: {}", names.join(", "))))
    };
    let (positive, blurry) = (column(&wanted.attribute)?, column(&wanted.blurry)?);
    let mut listed = Vec::with_capacity(count.min(1 << 20));
    for (number, line) in (3..).zip(lines).filter(|(_, line)| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let file = words.next().unwrap_or_default().to_owned();
        let values: Vec<&str> = words.collect();
        if values.len() != names.len() {
            return Err(wrong(number, format!("{} values for {} attributes", values.len(), names.len())));
        }
        let has = |column: usize| match values[column] {
            "1" => Ok(true),
            "-1" | "0" => Ok(false),
            other => Err(wrong(number, format!("{}: expected 1 or -1, found `{other}`", names[column]))),
        };
        listed.push(Listed { positive: has(positive)?, sharp: !has(blurry)?, file });
    }
    if listed.len() != count {
        return Err(wrong(1, format!("{count} images announced, {} listed", listed.len())));
    }
    Ok(listed)
}

fn identities(folder: &Path) -> Result<HashMap<String, u64>> {
    let (path, text) = text_of(folder, IDENTITIES)?;
    let mut identities = HashMap::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let person = match words[..] {
            [_, person] => person.parse().ok(),
            _ => None,
        };
        let Some(person) = person else {
            let problem = format!("expected an image and a person's number, found `{}`", line.trim());
            return Err(ImageDataError::content(path.display(), format!("line {number}"), problem));
        };
        identities.insert(words[0].to_owned(), person);
    }
    Ok(identities)
}

/// The places in the list of each person's images, of those that are kept.
fn chosen(
    folder: &Path,
    listed: &[Listed],
    identities: &HashMap<String, u64>,
    wanted: &CelebA,
    seed: u64,
) -> Result<Vec<Vec<usize>>> {
    let mut order: Vec<usize> = (0..listed.len()).collect();
    Rng::new(seed).stream("share of images", 0).shuffle(&mut order);
    order.truncate((listed.len() as f64 * wanted.share).round() as usize);
    order.sort_unstable();
    let mut people: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for place in order {
        let file = &listed[place].file;
        let person = identities.get(file).ok_or_else(|| {
            let problem = format!("nothing said about {file}, which {ATTRIBUTES} lists");
            ImageDataError::content(folder.join(IDENTITIES).display(), "all lines", problem)
        })?;
        people.entry(*person).or_default().push(place);
    }
    Ok(people.into_values().filter(|own| own.len() >= wanted.least.max(2)).collect())
}

fn pictures(folder: &Path) -> Result<PathBuf> {
    let found = FOLDERS.iter().map(|name| folder.join(name)).find(|path| path.is_dir());
    let what = || format!("the folder of images ({})", FOLDERS.join(" or "));
    found.ok_or_else(|| ImageDataError::missing(folder.display(), what()))
}

fn picture(path: &Path, wanted: &CelebA) -> Result<Vec<u8>> {
    let bytes = std::fs::read(path).map_err(|error| ImageDataError::io(path.display(), error))?;
    decode(&bytes, wanted.channels, wanted.side)
        .map_err(|problem| ImageDataError::content(path.display(), "the picture", problem))
}

#[cfg(test)]
#[cfg(feature = "images")]
mod tests {
    use super::super::decode::tests::png_of;
    use super::*;
    use std::fs;

    fn wanted() -> CelebA {
        let (attribute, blurry) = ("Smiling".to_owned(), "Blurry".to_owned());
        CelebA { attribute, blurry, side: 2, channels: 1, share: 1.0, least: 2 }
    }

    /// Five images of two people, and one of a third.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let list = "6\nBald Blurry Smiling\n1.png -1 -1 1\n2.png -1  1 -1\n3.png 1 -1 1\n4.png 1 -1 -1\n5.png -1 1 1\n6.png 1 1 1\n";
        fs::write(folder.path().join(ATTRIBUTES), list).unwrap();
        fs::write(folder.path().join(IDENTITIES), "1.png 9\n2.png 4\n3.png 9\n4.png 4\n5.png 4\n6.png 1\n").unwrap();
        let pictures = folder.path().join("img_align_celeba");
        fs::create_dir(&pictures).unwrap();
        for n in 1..=6u8 {
            let picture = png_of(2, 2, png::ColorType::Grayscale, &[n; 4]);
            fs::write(pictures.join(format!("{n}.png")), picture).unwrap();
        }
        folder
    }

    #[test]
    fn reads_people_with_enough_images() {
        let folder = folder();
        assert!(is_celeba(folder.path()));
        let faces = read_celeba(folder.path(), &wanted(), 1).unwrap();
        assert_eq!(faces.people, [vec![0, 1, 2], vec![3, 4]]);
        let firsts: Vec<u8> = (0..5).map(|image| faces.images.pixels_of(image)[0]).collect();
        assert_eq!((firsts, faces.images.labels()), (vec![2, 4, 5, 1, 3], &[0, 0, 1, 1, 1][..]));
        let sharp: Vec<bool> = (0..5).map(|image| faces.images.is_sharp(image)).collect();
        assert_eq!(sharp, [false, true, false, true, true]);
        let few = CelebA { share: 0.5, least: 3, ..wanted() };
        assert!(read_celeba(folder.path(), &few, 1).unwrap().people.len() <= 1);
    }

    #[test]
    fn errors_name_missing_and_invalid_files() {
        let folder = folder();
        let error = |wanted: &CelebA| read_celeba(folder.path(), wanted, 1).unwrap_err().to_string();
        let other = CelebA { attribute: "Happy".to_owned(), ..wanted() };
        assert!(error(&other).ends_with("line 2: no attribute Happy; there are: Bald, Blurry, Smiling"));
        fs::remove_file(folder.path().join("img_align_celeba/3.png")).unwrap();
        assert!(error(&wanted()).ends_with("img_align_celeba: 3.png is missing"), "{}", error(&wanted()));
        fs::write(folder.path().join("img_align_celeba/3.png"), b"no picture").unwrap();
        assert!(error(&wanted()).ends_with("3.png, the picture: neither JPEG nor PNG"));
        fs::write(folder.path().join(IDENTITIES), "1.png 9\nwho\n").unwrap();
        assert!(error(&wanted()).contains("line 2: expected an image and a person's number, found `who`"));
        fs::write(folder.path().join(ATTRIBUTES), "1\nBlurry Smiling\n1.png 1 2\n").unwrap();
        assert!(error(&wanted()).ends_with("line 3: Smiling: expected 1 or -1, found `2`"));
        fs::write(folder.path().join(ATTRIBUTES), "2\nBlurry Smiling\n1.png 1 1\n").unwrap();
        assert!(error(&wanted()).ends_with("line 1: 2 images announced, 1 listed"));
    }
}
