//! `serve`: the coordinator service.

use crate::args::{Common, Serve};
use crate::output;
use anyhow::{Context, Result};
use serde_json::json;
use sottovoce_server::{Config, RunningServer, Tls};

/// `sottovoce serve`.
pub(crate) fn run(args: &Serve, common: &Common) -> Result<()> {
    let config = config(args)?;
    let mut reported = Ok(());
    let ran = sottovoce_server::run(&config, |server| reported = report(server, &config, common.json));
    reported?;
    ran.context("the server cannot run")
}

/// Flags and environment variables override the file, which overrides the defaults.
fn config(args: &Serve) -> Result<Config> {
    let mut config = match &args.config {
        Some(path) => Config::read(path).map_err(|error| output::Usage(error.to_string()))?,
        None => Config::default(),
    };
    config.listen = args.listen.clone().unwrap_or(config.listen);
    config.operator_listen = args.operator_listen.clone().or(config.operator_listen);
    config.log = args.log.clone().unwrap_or(config.log);
    config.data = args.data.clone().unwrap_or(config.data);
    config.database = args.database.clone().or(config.database);
    config.models = args.models.clone().or(config.models);
    config.log_json |= args.log_json;
    config.new_admin_token = args.new_admin_token;
    if args.tls_certificate.is_some() || !args.tls_self_signed.is_empty() {
        config.tls = Some(Tls {
            certificate: args.tls_certificate.clone(),
            key: args.tls_key.clone(),
            self_signed: args.tls_self_signed.clone(),
        });
    }
    Ok(config)
}

fn report(server: &RunningServer, config: &Config, as_json: bool) -> Result<()> {
    let scheme = if server.tls { "https" } else { "http" };
    let url = format!("{scheme}://{}", server.address);
    let operators = server.operator_address.map(|address| format!("{scheme}://{address}"));
    if as_json {
        let mut started = json!({"listening": url, "admin_token": server.admin_token});
        if let Some(operators) = operators {
            started["operators"] = operators.into();
        }
        return output::print_line(&started.to_string());
    }
    output::print_line(&format!("listening on {url}"))?;
    if let Some(operators) = operators {
        output::print_line(&format!("operators are served on {operators} alone"))?;
    }
    if let Some(path) = &server.admin_token {
        let which = if config.new_admin_token { "a new" } else { "the first" };
        output::print_line(&format!("{which} admin's token is in {}", path.display()))?;
    }
    let self_signed = config.tls.as_ref().is_some_and(|tls| !tls.self_signed.is_empty());
    if self_signed {
        let certificate = config.data.join("tls").join("certificate.pem");
        output::print_line(&format!("devices trust it with --ca {}", certificate.display()))?;
    }
    Ok(())
}
