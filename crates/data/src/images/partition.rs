//! Partitions of images over clients.

use super::error::{ImageDataError, Result};
use sottovoce_core::{Histories, Rng};

/// The images of each client, for training and for testing.
#[derive(Clone, Debug, PartialEq)]
pub struct Clients {
    /// For training.
    pub train: Histories,
    /// For testing the shared model on this client.
    pub test: Histories,
}

impl Clients {
    /// From each client's two lists of images.
    pub(super) fn of(lists: &[[Vec<u32>; 2]], images: usize) -> Result<Self> {
        let part = |which: usize| {
            let lists: Vec<Vec<u32>> = lists
                .iter()
                .map(|both| {
                    let mut list = both[which].clone();
                    list.sort_unstable();
                    list
                })
                .collect();
            Histories::from_lists(&lists, images).map_err(|error| ImageDataError::Setting(error.to_string()))
        };
        Ok(Self { train: part(0)?, test: part(1)? })
    }

    /// IID clients: random images of both parts, the same number for each (McMahan et al. 2017).
    ///
    /// # Errors
    /// If there are no clients, or more than images of a part.
    pub fn iid(train: usize, test: usize, clients: usize, rng: &Rng) -> Result<Self> {
        check(clients, [train, test])?;
        let dealt = |label: &str, range: std::ops::Range<usize>| {
            let mut order: Vec<u32> = (range.start as u32..range.end as u32).collect();
            rng.stream(label, 0).shuffle(&mut order);
            (0..clients).map(|client| order[share(order.len(), clients, client)].to_vec()).collect::<Vec<_>>()
        };
        let (own, tests) = (dealt("train", 0..train), dealt("test", train..train + test));
        let lists: Vec<_> = own.into_iter().zip(tests).map(|(own, test)| [own, test]).collect();
        Self::of(&lists, train + test)
    }

    /// Non-IID clients with few classes: images sorted by label and divided into `each` shards per client, assigned at
    /// random (McMahan et al. 2017). The test part is divided in the same way, and a client gets the same shards of it.
    ///
    /// # Errors
    /// If there are no clients, or more shards than images of a part.
    pub fn by_shards(labels: &[u8], train: usize, clients: usize, each: usize, rng: &Rng) -> Result<Self> {
        let shards = clients.saturating_mul(each);
        check(shards, [train, labels.len().saturating_sub(train)])?;
        let sorted = |range: std::ops::Range<usize>| {
            let mut order: Vec<u32> = (range.start as u32..range.end as u32).collect();
            order.sort_by_key(|&image| labels[image as usize]);
            order
        };
        let parts = [sorted(0..train), sorted(train..labels.len())];
        let mut order: Vec<usize> = (0..shards).collect();
        rng.stream("shards", 0).shuffle(&mut order);
        let of = |own: &[usize]| {
            [0, 1].map(|which| {
                let part = &parts[which];
                own.iter().flat_map(|&shard| part[share(part.len(), shards, shard)].to_vec()).collect()
            })
        };
        let lists: Vec<_> = order.chunks(each).map(of).collect();
        Self::of(&lists, labels.len())
    }

    /// The same clients, each with a run of consecutive images of the test part as it is, mixed by class, in place of
    /// their own: the preparation of the thesis's program.
    ///
    /// # Errors
    /// If there are more clients than images of the test part.
    pub fn with_mixed_tests(self, train: usize, images: usize) -> Result<Self> {
        let (clients, test) = (self.len(), images.saturating_sub(train));
        check(clients, [train, test])?;
        let run = |client: usize| share(test, clients, client).map(|image| (train + image) as u32).collect();
        let lists: Vec<_> = (0..clients).map(|client| [self.train.of(client).to_vec(), run(client)]).collect();
        Self::of(&lists, images)
    }

    /// One client a person, of whose images this share is held out at random, at least one.
    pub(super) fn of_people(people: &[Vec<u32>], held_out: f64, images: usize, rng: &Rng) -> Result<Self> {
        if people.is_empty() {
            return Err(ImageDataError::Setting("there are no people with enough images".to_owned()));
        }
        let split = |(person, own): (usize, &Vec<u32>)| {
            let mut own = own.clone();
            rng.stream("hold out", person as u64).shuffle(&mut own);
            let test = ((own.len() as f64 * held_out).round() as usize).clamp(1, own.len().max(2) - 1);
            let test = own.split_off(own.len() - test.min(own.len()));
            [own, test]
        };
        let lists: Vec<_> = people.iter().enumerate().map(split).collect();
        Self::of(&lists, images)
    }

    /// Number of clients.
    pub fn len(&self) -> usize {
        self.train.users()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The range of one of several equal parts.
fn share(all: usize, parts: usize, part: usize) -> std::ops::Range<usize> {
    all * part / parts..all * (part + 1) / parts
}

fn check(parts: usize, images: [usize; 2]) -> Result<()> {
    let least = images[0].min(images[1]);
    if parts == 0 {
        return Err(ImageDataError::Setting("images for 0 clients: at least one is needed".to_owned()));
    }
    if parts > least {
        return Err(ImageDataError::Setting(format!(
            "{} images for training and {} for testing cannot be cut into {parts} parts",
            images[0], images[1]
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    fn all(histories: &Histories) -> Vec<u32> {
        let mut all = histories.items().to_vec();
        all.sort_unstable();
        all
    }

    proptest! {
        #[test]
        fn partitions_are_disjoint_and_complete(clients in 1usize..7, seed in 0u64..50) {
            let labels: Vec<u8> = (0..90u32).map(|n| (n * 7 % 10) as u8).collect();
            for parts in [
                Clients::iid(60, 30, clients, &Rng::new(seed)).unwrap(),
                Clients::by_shards(&labels, 60, clients, 2, &Rng::new(seed)).unwrap(),
                Clients::by_shards(&labels, 60, clients, 2, &Rng::new(seed)).unwrap().with_mixed_tests(60, 90).unwrap(),
            ] {
                prop_assert_eq!((parts.train.users(), parts.test.users()), (clients, clients));
                prop_assert_eq!(all(&parts.train), (0..60).collect::<Vec<_>>());
                prop_assert_eq!(all(&parts.test), (60..90).collect::<Vec<_>>());
                let spread = |histories: &Histories| {
                    let lengths: Vec<usize> = histories.iter().map(<[u32]>::len).collect();
                    lengths.iter().max().unwrap() - lengths.iter().min().unwrap()
                };
                prop_assert!(spread(&parts.train) <= 2 && spread(&parts.test) <= 2);
                prop_assert!(parts.train.iter().all(<[u32]>::is_sorted));
            }
        }
    }

    #[test]
    fn shards_have_few_classes_the_same_in_both_parts() {
        // A hundred of each class for training, ten for testing.
        let labels: Vec<u8> = (0..1100).map(|n| (n % 10) as u8).collect();
        let parts = Clients::by_shards(&labels, 1000, 10, 2, &Rng::new(1)).unwrap();
        for client in 0..10 {
            let classes = |own: &[u32]| {
                let mut classes: Vec<u8> = own.iter().map(|&image| labels[image as usize]).collect();
                classes.sort_unstable();
                classes.dedup();
                classes
            };
            let (own, test) = (classes(parts.train.of(client)), classes(parts.test.of(client)));
            assert!(own.len() <= 2 && own == test, "{own:?} {test:?}");
        }
    }

    #[test]
    fn mixed_tests_are_consecutive_images() {
        let labels: Vec<u8> = (0..1100).map(|n| (n % 10) as u8).collect();
        let shards = Clients::by_shards(&labels, 1000, 10, 2, &Rng::new(1)).unwrap();
        let mixed = shards.clone().with_mixed_tests(1000, 1100).unwrap();
        assert_eq!(mixed.train, shards.train);
        assert_eq!(mixed.test.of(3), (1030..1040).collect::<Vec<u32>>());
    }

    #[test]
    fn every_person_has_training_and_test_images() {
        let people = vec![vec![0, 1], (2..12).collect(), (12..17).collect()];
        let parts = Clients::of_people(&people, 0.2, 17, &Rng::new(1)).unwrap();
        let lengths = |histories: &Histories| histories.iter().map(<[u32]>::len).collect::<Vec<_>>();
        assert_eq!((lengths(&parts.train), lengths(&parts.test)), (vec![1, 8, 4], vec![1, 2, 1]));
        assert!(Clients::of_people(&[], 0.2, 0, &Rng::new(1)).is_err());
    }

    #[test]
    fn rejects_impossible_partitions() {
        let error = Clients::iid(60, 30, 0, &Rng::new(1)).unwrap_err().to_string();
        assert_eq!(error, "images for 0 clients: at least one is needed");
        let error = Clients::by_shards(&[0; 90], 60, 20, 2, &Rng::new(1)).unwrap_err().to_string();
        assert_eq!(error, "60 images for training and 30 for testing cannot be cut into 40 parts");
        assert!(Clients::by_shards(&[0; 90], 60, usize::MAX, 2, &Rng::new(1)).is_err());
    }
}
