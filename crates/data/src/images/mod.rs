//! Labelled images for the study of aggregation: MNIST, CelebA and synthetic faces, and their partition over clients.

mod celeba;
#[cfg(feature = "images")]
mod decode;
#[cfg(not(feature = "images"))]
mod decode {
    pub(super) fn decode(_: &[u8], _: usize, _: usize) -> Result<Vec<u8>, String> {
        Err("needs the cargo feature `images`, which this build leaves out".to_owned())
    }
}
mod error;
mod faces;
mod idx;
mod mnist;
mod partition;

pub use celeba::{CelebA, Faces, is_celeba, read_celeba};
pub use error::ImageDataError;
pub use faces::{FacesSpec, synthetic_faces};
pub use mnist::{Mnist, is_mnist, read_mnist};
pub use partition::Clients;

use sottovoce_core::{Images, Rng};
use std::path::{Path, PathBuf};

impl Faces {
    /// One client a person, of whose images this share is held out for testing.
    ///
    /// # Errors
    /// If there are no people.
    pub fn clients(&self, held_out: f64, rng: &Rng) -> Result<Clients, ImageDataError> {
        Clients::of_people(&self.people, held_out, self.images.len(), rng)
    }
}

/// Consecutive numbers for each person, as many as they have images.
fn consecutive(counts: impl Iterator<Item = usize>) -> Vec<Vec<u32>> {
    let mut next = 0..;
    counts.map(|count| next.by_ref().take(count).collect()).collect()
}

/// A hash of images, labels and sharpness.
pub fn image_fingerprint(images: &Images) -> String {
    let mut hasher = blake3::Hasher::new();
    for number in images.shape().into_iter().chain([images.classes(), images.len()]) {
        hasher.update(&(number as u64).to_le_bytes());
    }
    hasher.update(images.pixels()).update(images.labels());
    let sharp: Vec<u8> = (0..images.len()).map(|image| u8::from(images.is_sharp(image))).collect();
    hasher.update(&sharp).finalize().to_hex()[..16].to_owned()
}

/// The folder of this name: a path, or a bare name under the data folder.
///
/// # Errors
/// If there is none.
pub fn find_folder(source: &str, data_dir: Option<&Path>) -> Result<PathBuf, ImageDataError> {
    let data = crate::load::data_folder(data_dir);
    let named = data.as_ref().map(|folder| folder.join(source));
    let found = [Some(PathBuf::from(source)), named].into_iter().flatten().find(|path| path.is_dir());
    found.ok_or_else(|| {
        let searched = data.map_or_else(
            || format!(" (names are looked up under --data-dir or {})", crate::DATA_DIR),
            |folder| format!(" (looked for here and under {})", folder.display()),
        );
        ImageDataError::missing(source, format!("a folder of this name{searched}"))
    })
}
