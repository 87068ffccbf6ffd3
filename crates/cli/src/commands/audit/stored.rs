//! `audit --uploads`: attacks on uploads that a server retained.

use super::{Audited, Bytes, finish, rounds};
use crate::args::{Audit, Common};
use crate::folder;
use crate::output::Usage;
use crate::prepared::from_arguments;
use anyhow::{Result, bail};
use sottovoce_audit::{CuriousServer, ExposedTables, Subjects};
use sottovoce_core::{Histories, Names};
use sottovoce_experiment::prepare::Prepared;
use sottovoce_federation::StoredUploads;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// Highest device number; servers number devices in the order of enrolment.
const MOST_DEVICES: u32 = 100_000_000;

/// Audits the uploads of a folder against the histories of the data.
pub(super) fn run(args: &Audit, common: &Common, folder: &Path) -> Result<()> {
    let started = Instant::now();
    let uploads = StoredUploads::open(folder)?;
    let data = from_arguments(&args.data, &args.preparing, common)?;
    let spec = &uploads.terms().model;
    let surface =
        ExposedTables::of(&spec.name, data.parts.catalog.facts.as_ref()).map_err(|error| Usage(error.to_string()))?;
    check_catalog(&uploads, &data, &surface)?;
    let owners = args.devices.as_deref().map(|path| owners(path, &data.parts.users)).transpose()?;
    let by_device = |histories: &Histories| match &owners {
        None => Ok(histories.clone()),
        Some(owners) => {
            let of = |owner: &Option<u32>| owner.map_or(&[][..], |user| histories.of(user as usize));
            let lists: Vec<&[u32]> = owners.iter().map(of).collect();
            Histories::from_lists(&lists, histories.catalog_size())
        }
    };
    let (train, test) = (by_device(&data.parts.train)?, by_device(&data.parts.test)?);
    let subjects = Subjects::draw(&train, Some(&test), args.people as usize, common.seed);
    let people = subjects.devices().len();
    let witness = CuriousServer::new(surface, subjects, args.view, rounds(args));
    uploads.replay(&witness)?;
    let base = Audited {
        settings: spec.settings.clone(),
        findings: witness.conclude()?,
        epsilon: None,
        epsilon_server: None,
        metrics: BTreeMap::new(),
        bytes: Bytes { down: 0, up: 0 },
        seconds: started.elapsed().as_secs_f64(),
    };
    finish(args, common, &data, (&spec.name, people), &base, &[])
}

fn check_catalog(uploads: &StoredUploads, data: &Prepared, surface: &ExposedTables) -> Result<()> {
    let (rows, catalog) = (surface.rows(&uploads.model().parameters), &data.parts.catalog);
    let facts = catalog.facts.as_ref().filter(|_| surface.are_features());
    let expected = facts.map_or(catalog.len(), |facts| facts.features());
    if rows != expected {
        bail!("the uploads are of a model with {rows} rows, the data has {expected}: is it the same catalog?");
    }
    Ok(())
}

/// The user of each device, by its number.
fn owners(path: &Path, users: &Names) -> Result<Vec<Option<u32>>> {
    let text = folder::read_text(path)?;
    let numbers: BTreeMap<&str, u32> = (0..).zip(users.iter()).map(|(number, user)| (user, number)).collect();
    let mut owners = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let wrong = |what: &str| Usage(format!("{}, line {line}: {what}", path.display()));
        let (device, user) = text.split_once('\t').ok_or_else(|| wrong("expected DEVICE<tab>USER"))?;
        let number = device.trim().parse().ok().filter(|&device: &u32| device < MOST_DEVICES);
        let device = number.ok_or_else(|| wrong(&format!("`{device}` is not a device's number")))?;
        let user = *numbers.get(user.trim()).ok_or_else(|| wrong(&format!("there is no user `{user}`")))?;
        if device as usize >= owners.len() {
            owners.resize(device as usize + 1, None);
        }
        if owners[device as usize].replace(user).is_some() {
            return Err(wrong(&format!("device {device} appears twice")).into());
        }
    }
    Ok(owners)
}
