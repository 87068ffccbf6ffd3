//! The images of a classifier, partitioned into clients.

use super::task::{ImageData, ImageSource, Partition};
use sottovoce_core::{Histories, Images, Rng};
use sottovoce_data::images::{
    CelebA, Clients, Faces, FacesSpec, ImageDataError, find_folder, image_fingerprint, read_celeba, read_mnist,
    synthetic_faces,
};
use sottovoce_evaluate::report::DataCard;
use std::path::Path;
use std::sync::Arc;

/// Images and the clients that hold them.
pub(super) struct PreparedImages {
    pub(super) images: Arc<Images>,
    pub(super) clients: Clients,
    pub(super) fingerprint: String,
}

impl PreparedImages {
    pub(super) fn load(spec: &ImageData, data_dir: Option<&Path>) -> Result<Self, ImageDataError> {
        let rng = Rng::new(spec.seed).stream("clients", 0);
        let (images, clients) = match &spec.source {
            ImageSource::Mnist(folder) => mnist(spec, &find_folder(folder, data_dir)?, &rng)?,
            ImageSource::CelebA(folder) => {
                people(read_celeba(&find_folder(folder, data_dir)?, &spec.faces, spec.seed)?, spec, &rng)?
            }
            ImageSource::Faces => {
                let CelebA { side, channels, .. } = spec.faces;
                let (images, seed) = (spec.mean_images, spec.seed);
                let faces = FacesSpec { people: spec.people, images, side, channels, seed };
                people(synthetic_faces(&faces)?, spec, &rng)?
            }
        };
        let fingerprint = image_fingerprint(&images);
        Ok(Self { images: Arc::new(images), clients, fingerprint })
    }

    /// For the report.
    pub(super) fn card(&self, spec: &ImageData) -> DataCard {
        let Clients { train, test } = &self.clients;
        let sizes = |part: &Histories| {
            let mut sizes: Vec<usize> = part.iter().map(<[u32]>::len).collect();
            sizes.sort_unstable();
            let at = |index: usize| sizes.get(index).copied().unwrap_or(0);
            format!("{} to {}, median {}", at(0), at(sizes.len().saturating_sub(1)), at(sizes.len() / 2))
        };
        let [channels, height, width] = self.images.shape();
        let used = train.interactions() + test.interactions();
        DataCard {
            name: spec.source.to_string(),
            source: spec.source.about().to_owned(),
            users: self.clients.len() as u64,
            items: self.images.len() as u64,
            interactions: used as u64,
            fingerprint: self.fingerprint.clone(),
            split: spec.partition.about(spec),
            parts: vec![
                ("train".to_owned(), train.interactions() as u64),
                ("test".to_owned(), test.interactions() as u64),
            ],
            facts: vec![
                ("image".to_owned(), format!("{channels} x {height} x {width}")),
                ("classes".to_owned(), self.images.classes().to_string()),
                ("training images a device".to_owned(), sizes(train)),
                ("test images a device".to_owned(), sizes(test)),
            ],
            ..DataCard::default()
        }
    }
}

type Partitioned = (Images, Clients);

fn mnist(spec: &ImageData, folder: &Path, rng: &Rng) -> Result<Partitioned, ImageDataError> {
    let mnist = read_mnist(folder)?;
    let (all, train) = (mnist.images.len(), mnist.train);
    let clients = match spec.partition {
        Partition::Shards => Clients::by_shards(mnist.images.labels(), train, spec.clients, spec.shards, rng)?,
        Partition::ShardsMixedTest => {
            let clients = Clients::by_shards(mnist.images.labels(), train, spec.clients, spec.shards, rng)?;
            clients.with_mixed_tests(train, all)?
        }
        Partition::Iid | Partition::People => Clients::iid(train, all - train, spec.clients, rng)?,
    };
    Ok((mnist.images, clients))
}

fn people(faces: Faces, spec: &ImageData, rng: &Rng) -> Result<Partitioned, ImageDataError> {
    let clients = faces.clients(spec.held_out, rng)?;
    Ok((faces.images, clients))
}
