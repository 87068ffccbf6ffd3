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
        let facts = json!({"folder": folder, "kind": "celeba"});
        return output::answer(common, &facts, || format!("{} ({what})\n", folder.display()));
    }
    let mnist = read_mnist(folder)?;
    let (images, train) = (&mnist.images, mnist.train);
    let mut classes = vec![0usize; images.classes()];
    images.labels().iter().for_each(|&label| classes[usize::from(label)] += 1);
    let ([_, height, width], fingerprint) = (images.shape(), image_fingerprint(images));
    let test = images.len() - train;
    let facts = json!({
        "folder": folder, "kind": "mnist", "train": train, "test": test, "height": height, "width": width,
        "classes": classes, "fingerprint": fingerprint
    });
    output::answer(common, &facts, || {
        let counts: Vec<String> = classes.iter().map(|&count| grouped(count)).collect();
        format!(
            "{} (images in idx files, as MNIST)\n  training       {}\n  test           {}\n  image          {height} x \
             {width} grey values\n  classes        {}\n  fingerprint    {fingerprint}\n",
            folder.display(),
            grouped(train),
            grouped(test),
            counts.join(", ")
        )
    })
}
