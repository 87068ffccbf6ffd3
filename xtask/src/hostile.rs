//! `cargo xtask prove hostile`: requests, uploads and callers that mean no good.

use crate::process::{self, cargo, output, program, show_and_run, shown};
use crate::workspace::root;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};

/// The tool that makes requests from the interface's description.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";
/// What it looks at: no 5xx, and nothing that is not described.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,unsupported_method";
/// Tells it that messages of the wire format are bytes.
const MESSAGES: &str = "\
import schemathesis
schemathesis.serializer.alias('application/vnd.sottovoce', 'application/octet-stream')
";
/// The federation that it is let loose on.
const NAME: &str = "town";

/// The table of hostile requests, mutated uploads, and requests made from the description.
pub(crate) fn prove(long: bool) -> Result<()> {
    let table = ["test", "--package", "sottovoce-server", "--test", "hostile", "--", "--nocapture"];
    show_and_run(&mut cargo(table))?;
    let inputs = if long { "2000000" } else { "100000" };
    let mutate = ["run", "--release", "--package", "sottovoce-testing", "--example", "mutate_messages"];
    show_and_run(cargo(mutate).args(["--", inputs]))?;
    let described = match schemathesis() {
        Ok(tool) => format!("{} requests made from its description", from_description(&tool, long)?),
        Err(why) => {
            ensure!(!process::is_ci(), "{why:#}; an automatic run leaves nothing out");
            println!("SKIPPED: schemathesis, which makes requests from the description: {why:#}");
            "requests made from its description NOT tried".to_owned()
        }
    };
    println!("the table of hostile requests held, {inputs} mutated messages, {described}");
    Ok(())
}

/// Installs the tool for this workspace alone, unless it is there.
fn schemathesis() -> Result<PathBuf> {
    let folder = root().join("target").join("schemathesis");
    let tool = folder.join("bin").join("schemathesis");
    let version = SCHEMATHESIS.rsplit('=').next().unwrap_or_default();
    let told = |tool: &Path| output(program(&tool.to_string_lossy()).arg("--version")).unwrap_or_default();
    if told(&tool).contains(version) {
        return Ok(tool);
    }
    let python = if cfg!(windows) { "python" } else { "python3" };
    show_and_run(program(python).args(["-m", "venv"]).arg(&folder)).context("no Python with venv")?;
    let pip = folder.join("bin").join("pip");
    show_and_run(program(&pip.to_string_lossy()).args(["install", "--quiet", SCHEMATHESIS]))
        .context("PyPI cannot be had")?;
    Ok(tool)
}

/// A server that ends with this value.
struct Server {
    process: Child,
    /// Kept open: who says something to nobody may take that for an error.
    said: Option<BufReader<ChildStdout>>,
    url: String,
    folder: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.process.kill().and_then(|()| self.process.wait());
        let _gone = fs::remove_dir_all(&self.folder);
    }
}

impl Server {
    fn start(binary: &Path) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("sottovoce-hostile-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let mut command = program(&binary.to_string_lossy());
        command.args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--data"]).arg(&folder);
        println!("$ {}", shown(&command));
        let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut server = Self { process, said: None, url: String::new(), folder };
        let said = server.process.stdout.take().context("the server says nothing")?;
        let (said, mut line) = (server.said.insert(BufReader::new(said)), String::new());
        while said.read_line(&mut line)? > 0 {
            if let Some(url) = line.trim().strip_prefix("listening on ") {
                server.url = url.to_owned();
                return Ok(server);
            }
            line.clear();
        }
        bail!("the server does not listen")
    }

    fn admin(&self) -> Result<String> {
        let read = fs::read_to_string(self.folder.join("admin.token"));
        Ok(read.context("the first admin's token")?.trim().to_owned())
    }

    /// A small request; returns the body of the answer.
    fn post(&self, path: &str, secret: &str, body: &str) -> Result<serde_json::Value> {
        let at = self.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(at)?;
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\nauthorization: Bearer {secret}\r\n\
             idempotency-key: the-key-of-a-proof-alone\r\ncontent-length: {length}\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
        ensure!(head.starts_with("HTTP/1.1 201"), "POST {path}: {head}: {body}");
        Ok(serde_json::from_str(body)?)
    }
}

fn text(of: &serde_json::Value, key: &str) -> Result<String> {
    Ok(of[key].as_str().with_context(|| format!("no {key} in {of}"))?.to_owned())
}

/// Lets the tool loose on a server with a federation, as an operator, as somebody who enrols, and as a device.
fn from_description(tool: &Path, long: bool) -> Result<u64> {
    show_and_run(&mut cargo(["build", "--package", "sottovoce"]))?;
    let server = Server::start(&root().join("target").join("debug").join("sottovoce"))?;
    let admin = server.admin()?;
    let config = format!(r#"{{"name":"{NAME}","model":"fcf","catalog":"item\na\nb\nc\n","settings":{{"factors":2}}}}"#);
    server.post("/v1/operator/federations", &admin, &config)?;
    let token = server.post(&format!("/v1/operator/federations/{NAME}/enrolment-tokens"), &admin, "{}")?;
    let token = text(&token, "token")?;
    let device = server.post(&format!("/v1/federations/{NAME}/devices"), &token, "")?;
    let credential = text(&device, "credential")?;
    fs::write(server.folder.join("messages.py"), MESSAGES)?;
    let settings = format!("hooks = \"messages.py\"\n[parameters]\n\"path.federation\" = \"{NAME}\"\n");
    fs::write(server.folder.join("schemathesis.toml"), settings)?;
    let mut requests = 0;
    // Who withdraws or removes the token that is called with comes last.
    for (secret, filter) in [
        (&credential, vec!["--include-tag", "devices", "--exclude-operation-id", "withdraw"]),
        (&token, vec!["--include-operation-id", "enrol"]),
        (&admin, vec!["--include-tag", "server"]),
        (&admin, vec!["--include-tag", "operators", "--exclude-operation-id-regex", "events|removeToken"]),
        (&credential, vec!["--include-operation-id", "withdraw"]),
        (&admin, vec!["--include-operation-id", "removeToken"]),
    ] {
        let mut command = program(&tool.to_string_lossy());
        command.current_dir(&server.folder).args(["--config-file", "schemathesis.toml"]);
        command.args(["run", "--checks", CHECKS, "--no-color"]);
        command.args(["--phases", "examples,coverage,fuzzing", "--generation-database", "none", "--seed", "1"]);
        command.args(["--max-examples", if long { "1000" } else { "30" }]).args(filter);
        command.arg(format!("--header=Authorization: Bearer {secret}"));
        command.arg(format!("{}/openapi.json", server.url));
        requests += tried(&mut command)?;
    }
    Ok(requests)
}

/// Runs the tool; returns how many requests it made.
fn tried(command: &mut std::process::Command) -> Result<u64> {
    let ran = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("schemathesis did not start")?;
    let said = String::from_utf8_lossy(&ran.stdout);
    ensure!(ran.status.success(), "schemathesis found something:\n{said}");
    let line = said.lines().rev().find(|line| line.contains("generated"));
    println!("{}", line.unwrap_or("schemathesis found nothing").trim());
    let number = line.and_then(|line| line.split_whitespace().find_map(|word| word.parse().ok()));
    Ok(number.unwrap_or(0))
}
