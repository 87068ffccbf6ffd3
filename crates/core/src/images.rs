//! Labelled images of one size.

use thiserror::Error;

/// Images of which sizes, pixels and labels do not fit together.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ImagesError {
    /// A size or the number of classes is 0 or too large.
    #[error("images of {channels} x {height} x {width} values in {classes} classes cannot be used")]
    Shape {
        /// Channels of an image.
        channels: usize,
        /// Its height.
        height: usize,
        /// Its width.
        width: usize,
        /// Number of classes.
        classes: usize,
    },
    /// A column has another length than the labels.
    #[error("{found} {column} for {images} images, where {expected} were expected")]
    Column {
        /// Name of the column.
        column: &'static str,
        /// Its length.
        found: usize,
        /// What its length should be.
        expected: usize,
        /// Number of images.
        images: usize,
    },
    /// A label is not below the number of classes.
    #[error("image {image} has label {label}, but there are only {classes} classes")]
    Label {
        /// The image's index.
        image: usize,
        /// Its label.
        label: u8,
        /// Number of classes.
        classes: usize,
    },
}

/// Labelled images of one size, one byte a value: channels x height x width, one image after the other.
///
/// In a federation of image classifiers these replace the catalog: a client's history lists its images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    shape: [usize; 3],
    classes: usize,
    pixels: Vec<u8>,
    labels: Vec<u8>,
    /// One per image; empty if unknown.
    sharp: Vec<bool>,
}

impl Images {
    /// Images of `shape` (channels, height, width) with labels below `classes`.
    ///
    /// # Errors
    /// If sizes are 0, pixels do not fit the labels, or a label is too large.
    pub fn new(shape: [usize; 3], classes: usize, pixels: Vec<u8>, labels: Vec<u8>) -> Result<Self, ImagesError> {
        let [channels, height, width] = shape;
        let values = channels.checked_mul(height).and_then(|values| values.checked_mul(width));
        let expected = values.and_then(|values| values.checked_mul(labels.len()));
        let fits = values.is_some_and(|values| values > 0) && (1..=256).contains(&classes);
        let Some(expected) = expected.filter(|_| fits) else {
            return Err(ImagesError::Shape { channels, height, width, classes });
        };
        if pixels.len() != expected {
            let (found, images) = (pixels.len(), labels.len());
            return Err(ImagesError::Column { column: "values", found, expected, images });
        }
        if let Some(image) = labels.iter().position(|&label| usize::from(label) >= classes) {
            return Err(ImagesError::Label { image, label: labels[image], classes });
        }
        Ok(Self { shape, classes, pixels, labels, sharp: Vec::new() })
    }

    /// Adds whether each image is sharp.
    ///
    /// # Errors
    /// If there is not one value per image.
    pub fn with_sharpness(mut self, sharp: Vec<bool>) -> Result<Self, ImagesError> {
        let (found, images) = (sharp.len(), self.len());
        if found != images {
            return Err(ImagesError::Column { column: "sharpness values", found, expected: images, images });
        }
        self.sharp = sharp;
        Ok(self)
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Channels, height and width.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Values of one image.
    pub fn values(&self) -> usize {
        self.shape.iter().product()
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// An image's values, channel after channel, row after row.
    ///
    /// # Panics
    /// If there is no such image.
    pub fn pixels_of(&self, image: usize) -> &[u8] {
        &self.pixels[image * self.values()..][..self.values()]
    }

    /// All values, image after image.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// All labels.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// Whether an image is sharp; unknown counts as sharp.
    pub fn is_sharp(&self, image: usize) -> bool {
        self.sharp.get(image).copied().unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_pixels_and_labels_that_do_not_fit() {
        let of = |shape, classes, pixels: usize, labels: &[u8]| {
            Images::new(shape, classes, vec![0; pixels], labels.to_vec())
        };
        let error = |images: Result<Images, ImagesError>| images.unwrap_err().to_string();
        assert_eq!(error(of([1, 2, 2], 3, 7, &[0, 1])), "7 values for 2 images, where 8 were expected");
        assert_eq!(error(of([1, 2, 2], 3, 8, &[0, 3])), "image 1 has label 3, but there are only 3 classes");
        assert!(of([1, 0, 2], 3, 0, &[]).is_err() && of([usize::MAX, 2, 2], 3, 0, &[]).is_err());
        let images = of([1, 2, 2], 3, 8, &[0, 2]).unwrap();
        assert_eq!((images.len(), images.values(), images.is_sharp(1)), (2, 4, true));
        assert!(images.clone().with_sharpness(vec![true]).is_err());
        assert!(!images.with_sharpness(vec![true, false]).unwrap().is_sharp(1));
    }
}
