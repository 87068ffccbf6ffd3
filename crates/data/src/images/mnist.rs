//! MNIST and data sets in its format: four idx files in a folder.

use super::error::{ImageDataError, Result};
use super::idx;
use sottovoce_core::Images;
use std::path::{Path, PathBuf};

/// Classes of MNIST and its kin.
const CLASSES: usize = 10;
/// How the files are called, with and without the point that some archives have.
const PARTS: [[&str; 2]; 2] = [["train-images", "train-labels"], ["t10k-images", "t10k-labels"]];

/// Both parts of MNIST in one store: training images first.
#[derive(Debug)]
pub struct Mnist {
    /// All images.
    pub images: Images,
    /// How many of them are for training; the others are the test part.
    pub train: usize,
}

/// Whether a folder has the files of MNIST.
pub fn is_mnist(folder: &Path) -> bool {
    PARTS.iter().all(|[images, _]| find(folder, images, 3).is_some())
}

/// Reads the four files of a folder, plain or packed.
///
/// # Errors
/// If one is missing or not as the format asks, or images and labels do not fit together.
pub fn read_mnist(folder: &Path) -> Result<Mnist> {
    let [first, second] = PARTS;
    let (mut pixels, mut labels, sides, _) = part(folder, first)?;
    let (test_pixels, test_labels, test_sides, file) = part(folder, second)?;
    if test_sides != sides {
        let problem = format!("images of {test_sides:?}, where those for training are of {sides:?}");
        return Err(ImageDataError::content(file.display(), "byte 8", problem));
    }
    let ([height, width], train) = (sides, labels.len());
    pixels.extend(test_pixels);
    labels.extend(test_labels);
    Ok(Mnist { images: Images::new([1, height, width], CLASSES, pixels, labels)?, train })
}

type Part = (Vec<u8>, Vec<u8>, [usize; 2], PathBuf);

fn part(folder: &Path, [images, labels]: [&str; 2]) -> Result<Part> {
    let need = |name: &str, sides: usize| {
        let what = || format!("{name}-idx{sides}-ubyte (or the same with .gz)");
        find(folder, name, sides).ok_or_else(|| ImageDataError::missing(folder.display(), what()))
    };
    let (image_file, label_file) = (need(images, 3)?, need(labels, 1)?);
    let (pixels, own) = (idx::read(&image_file, 3)?, idx::read(&label_file, 1)?);
    let [count, height, width] = pixels.sides[..] else {
        return Err(ImageDataError::content(image_file.display(), "byte 3", "expected three sides"));
    };
    if own.values.len() != count || count == 0 {
        let problem = format!("{} labels for the {count} images of {}", own.values.len(), image_file.display());
        return Err(ImageDataError::content(label_file.display(), "byte 4", problem));
    }
    if let Some(at) = own.values.iter().position(|&label| usize::from(label) >= CLASSES) {
        let problem = format!("label {} of image {at}, expected 0 to {}", own.values[at], CLASSES - 1);
        return Err(ImageDataError::content(label_file.display(), format!("byte {}", 8 + at), problem));
    }
    Ok((pixels.values, own.values, [height, width], image_file))
}

fn find(folder: &Path, name: &str, sides: usize) -> Option<PathBuf> {
    let names = ["-", "."]
        .into_iter()
        .flat_map(|dash| ["", ".gz", ".zst"].map(|ending| format!("{name}{dash}idx{sides}-ubyte{ending}")));
    names.map(|name| folder.join(name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    fn idx(sides: &[u32], values: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, 8, sides.len() as u8];
        sides.iter().for_each(|side| bytes.extend(side.to_be_bytes()));
        bytes.extend(values);
        bytes
    }

    fn write(folder: &Path, labels: &[u8]) {
        let packed = |bytes: &[u8]| {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(bytes).unwrap();
            gzip.finish().unwrap()
        };
        let images = idx(&[3, 2, 2], &[9; 12]);
        fs::write(folder.join("train-images-idx3-ubyte.gz"), packed(&images)).unwrap();
        fs::write(folder.join("train-labels-idx1-ubyte"), idx(&[labels.len() as u32], labels)).unwrap();
        fs::write(folder.join("t10k-images.idx3-ubyte"), idx(&[1, 2, 2], &[4, 3, 2, 1])).unwrap();
        fs::write(folder.join("t10k-labels.idx1-ubyte.gz"), packed(&idx(&[1], &[5]))).unwrap();
    }

    #[test]
    fn reads_four_files_into_one_store() {
        let folder = tempfile::tempdir().unwrap();
        let error = read_mnist(folder.path()).unwrap_err().to_string();
        assert!(error.contains("train-images-idx3-ubyte") && !is_mnist(folder.path()), "{error}");
        write(folder.path(), &[7, 0, 9]);
        let mnist = read_mnist(folder.path()).unwrap();
        assert!(is_mnist(folder.path()));
        assert_eq!((mnist.train, mnist.images.labels()), (3, &[7, 0, 9, 5][..]));
        assert_eq!((mnist.images.shape(), mnist.images.pixels_of(3)), ([1, 2, 2], &[4, 3, 2, 1][..]));
    }

    #[test]
    fn errors_name_file_and_byte_of_bad_labels() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &[7, 10, 9]);
        let error = read_mnist(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("train-labels-idx1-ubyte, byte 9: label 10 of image 1, expected 0 to 9"), "{error}");
        write(folder.path(), &[7, 1]);
        let error = read_mnist(folder.path()).unwrap_err().to_string();
        assert!(error.contains("byte 4: 2 labels for the 3 images of "), "{error}");
    }
}
