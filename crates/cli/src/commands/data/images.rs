//! `data describe` of a folder of images.

use crate::args::Common;
use crate::output::{self, grouped};
use anyhow::Result;
use serde_json::json;
use sottovoce_data::images::{find_folder, image_fingerprint, is_celeba, is_mnist, read_mnist};
use std::path::{Path, PathBuf};

/// The folder of that name, if it holds images and not interactions.
pub(super) fn folder(source: &str, common: &Common) -> Option<PathBuf> {
    let folder = find_folder(source, common.data_dir.as_deref()).ok()?;
    (is_mnist(&folder) || is_celeba(&folder)).then_some(folder)
}

/// Describes the images.
pub(super) fn show(folder: &Path, common: &Common) -> Result<()> {
    if !is_mnist(folder) {
        let what = "CelebA: photographs of celebrities with attributes, for experiments on classifiers";
        return match common.json {
            true => output::print_json(&json!({"folder": folder, "kind": "celeba"})),
            false => output::print_line(&format!("{} ({what})", folder.display())),
        };
    }
    let mnist = read_mnist(folder)?;
    let (images, train) = (&mnist.images, mnist.train);
    let mut classes = vec![0usize; images.classes()];
    images.labels().iter().for_each(|&label| classes[usize::from(label)] += 1);
    let ([_, height, width], fingerprint) = (images.shape(), image_fingerprint(images));
    if common.json {
        return output::print_json(&json!({
            "folder": folder, "kind": "mnist", "train": train, "test": images.len() - train, "height": height,
            "width": width, "classes": classes, "fingerprint": fingerprint
        }));
    }
    let counts: Vec<String> = classes.iter().map(|&count| grouped(count)).collect();
    output::print_line(&format!("{} (images in idx files, as MNIST)", folder.display()))?;
    output::print_line(&format!("  training       {}", grouped(train)))?;
    output::print_line(&format!("  test           {}", grouped(images.len() - train)))?;
    output::print_line(&format!("  image          {height} x {width} grey values"))?;
    output::print_line(&format!("  classes        {}", counts.join(", ")))?;
    output::print_line(&format!("  fingerprint    {fingerprint}"))
}
