//! `keep`: the keeper of masks.

use crate::args::{Common, Keep};
use crate::{folder, output};
use anyhow::{Context, Result};
use serde_json::json;
use sottovoce_device::read_roster;
use sottovoce_keeper::{Config, RunningKeeper, Tls};
use sottovoce_privacy::secagg::Roster;
use sottovoce_privacy::tokens::to_hex;
use std::path::Path;

/// `sottovoce keep`.
pub(crate) fn run(args: &Keep, common: &Common) -> Result<()> {
    let tls = args.tls_certificate.clone().zip(args.tls_key.clone());
    let config = Config {
        listen: args.listen.clone(),
        data: args.data.clone(),
        tls: tls.map(|(certificate, key)| Tls { certificate, key }),
        least: args.least,
        roster: args.roster.as_deref().map(roster).transpose()?,
        openers: args.opener.iter().copied().collect(),
        log: args.log.clone(),
    };
    let mut reported = Ok(());
    let ran = sottovoce_keeper::run(&config, |keeper| reported = report(keeper, common.json));
    reported?;
    ran.context("the keeper cannot run")
}

fn roster(file: &Path) -> Result<Roster> {
    let text = folder::read_text(file)?;
    read_roster(&text).map_err(|error| output::Usage(format!("{}: {error}", file.display())).into())
}

fn report(keeper: &RunningKeeper, as_json: bool) -> Result<()> {
    let url = format!("{}://{}", if keeper.tls { "https" } else { "http" }, keeper.address);
    let (key, rounds) = (to_hex(&keeper.public), keeper.rounds);
    if as_json {
        return output::print_line(&json!({"listening": url, "key": key, "rounds": rounds}).to_string());
    }
    output::print_line(&format!(
        "listening on {url}; {rounds} rounds opened so far\n\
         public key {key}\n\
         a federation with this keeper:\n  \
         sottovoce federation create NAME --model MODEL --set seal=keeper --keeper {url} --keeper-key {key} ...\n\
         devices that take no other:\n  \
         sottovoce device policy --require keeper.key={key}"
    ))
}
