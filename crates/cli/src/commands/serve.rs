//! `serve`: the coordinator service.

use crate::args::{Common, Serve};
use crate::output;
use anyhow::{Context, Result};
use serde_json::json;
use sottovoce_server::config::{Config, Tls};
use sottovoce_server::run::{self, Started};

/// `sottovoce serve`.
pub(crate) fn run(args: &Serve, common: &Common) -> Result<()> {
    let config = config(args)?;
    let mut told = Ok(());
    let ran = run::run(&config, |started| told = tell(started, &config, common.json));
    told?;
    ran.context("the server cannot run")
}

/// Flags and environment over the file, the file over the defaults.
fn config(args: &Serve) -> Result<Config> {
    let mut config = match &args.config {
        Some(path) => Config::read(path).map_err(|error| output::Usage(error.to_string()))?,
        None => Config::default(),
    };
    let put = |to: &mut String, from: &Option<String>| {
        if let Some(from) = from {
            to.clone_from(from);
        }
    };
    put(&mut config.listen, &args.listen);
    put(&mut config.log, &args.log);
    if let Some(data) = &args.data {
        config.data.clone_from(data);
    }
    config.database = args.database.clone().or(config.database);
    config.models = args.models.clone().or(config.models);
    config.log_json |= args.log_json;
    if args.tls_certificate.is_some() || !args.tls_self_signed.is_empty() {
        config.tls = Some(Tls {
            certificate: args.tls_certificate.clone(),
            key: args.tls_key.clone(),
            self_signed: args.tls_self_signed.clone(),
        });
    }
    Ok(config)
}

fn tell(started: &Started, config: &Config, as_json: bool) -> Result<()> {
    let scheme = if started.tls { "https" } else { "http" };
    let url = format!("{scheme}://{}", started.address);
    if as_json {
        return output::print_line(
            &json!({"listening": url, "admin_token": started.admin_token}).to_string(),
        );
    }
    output::print_line(&format!("listening on {url}"))?;
    if let Some(path) = &started.admin_token {
        output::print_line(&format!("the first admin's token is in {}", path.display()))?;
    }
    let self_signed = config.tls.as_ref().is_some_and(|tls| !tls.self_signed.is_empty());
    if self_signed {
        let certificate = config.data.join("tls").join("certificate.pem");
        output::print_line(&format!("devices trust it with --ca {}", certificate.display()))?;
    }
    Ok(())
}
