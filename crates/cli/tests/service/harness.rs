//! A server that can be started, stopped and killed.

use safetensors::SafeTensors;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The program, without any data folder from the environment.
pub(crate) fn program() -> Command {
    // Nextest says where the program is, if it is not where it was built.
    let moved = std::env::var_os("NEXTEST_BIN_EXE_sottovoce");
    let mut command = Command::new(moved.unwrap_or_else(|| env!("CARGO_BIN_EXE_sottovoce").into()));
    command.env_remove("SOTTOVOCE_DATA").env_remove("NO_COLOR");
    command
}

/// The database of a server.
#[derive(Clone, Debug)]
pub(crate) enum Database {
    /// A file in the server's folder.
    Sqlite,
    /// A database of its own.
    Postgres(String),
}

impl Database {
    /// All that are available: PostgreSQL if `cargo xtask test` has started one.
    pub(crate) fn all(test: &str) -> Vec<Database> {
        let mut all = vec![Database::Sqlite];
        match std::env::var("SOTTOVOCE_TEST_POSTGRES") {
            Ok(url) => all.push(Database::Postgres(new_database(&url, test))),
            Err(_) => eprintln!(
                "SKIPPED: {test} on PostgreSQL: SOTTOVOCE_TEST_POSTGRES is not set (`cargo xtask test` sets it)"
            ),
        }
        all
    }
}

/// Creates a database on a PostgreSQL server; returns its address.
fn new_database(server: &str, test: &str) -> String {
    let name = format!("sottovoce_{}_{}", test.replace('-', "_"), std::process::id());
    let (base, _) = server.rsplit_once('/').expect("an address that ends in a database's name");
    let mut client = postgres::Client::connect(server, postgres::NoTls).expect("PostgreSQL answers");
    client.batch_execute(&format!("DROP DATABASE IF EXISTS {name}")).unwrap();
    client.batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
    format!("{base}/{name}")
}

/// A server's folder, port and database, without its process.
pub(crate) struct TestServer {
    pub(crate) folder: tempfile::TempDir,
    port: u16,
    database: Database,
}

/// The process of a server, killed when dropped.
pub(crate) struct RunningProcess(Child);

impl From<Child> for RunningProcess {
    fn from(child: Child) -> Self {
        Self(child)
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _gone = self.0.wait();
    }
}

impl RunningProcess {
    /// SIGKILL.
    pub(crate) fn kill(self) {
        drop(self);
    }

    /// SIGTERM, and waits; returns whether it succeeded.
    pub(crate) fn stop(mut self) -> bool {
        let pid = self.0.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        self.0.wait().unwrap().success()
    }
}

impl TestServer {
    pub(crate) fn new(database: Database) -> Self {
        // Released again: a restarted server must have the same address.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { folder: tempfile::tempdir().unwrap(), port, database }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Starts the server and waits until it listens.
    pub(crate) fn serve(&self) -> RunningProcess {
        self.serve_with(&[])
    }

    pub(crate) fn serve_with(&self, more: &[&str]) -> RunningProcess {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path("server.log")).unwrap();
        let mut command = program();
        command.args(["serve", "--json", "--listen", &format!("127.0.0.1:{}", self.port)]);
        command.arg("--data").arg(self.path("server"));
        if let Database::Postgres(url) = &self.database {
            command.args(["--database", url]);
        }
        let child = command.args(more).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut serving = RunningProcess(child);
        let mut line = String::new();
        BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("{}", fs::read_to_string(self.path("server.log")).unwrap()));
        assert!(told["listening"].as_str().unwrap().ends_with(&self.port.to_string()), "{line}");
        serving
    }

    /// An operator's command.
    pub(crate) fn operate(&self, arguments: &[&str]) -> Value {
        let mut command = program();
        command.arg("federation").args(arguments).arg("--json").args(["--server", &self.url()]);
        command.arg("--token-file").arg(self.path("server/admin.token"));
        serde_json::from_str(&printed(&mut command)).unwrap()
    }

    /// An operator's command that answers nothing.
    pub(crate) fn operate_quietly(&self, arguments: &[&str]) {
        let mut command = program();
        command.arg("federation").args(arguments).args(["--server", &self.url()]);
        printed(command.arg("--token-file").arg(self.path("server/admin.token")));
    }

    /// Creates a federation and an enrolment token.
    pub(crate) fn create(&self, name: &str, arguments: &[&str]) -> PathBuf {
        let create: Vec<&str> = ["create", name].iter().chain(arguments).copied().collect();
        self.operate(&create);
        let token = self.operate(&["token", name])["token"].as_str().unwrap().to_owned();
        let path = self.path("enrol.token");
        fs::write(&path, token).unwrap();
        path
    }

    /// The command of a fleet for a federation.
    pub(crate) fn fleet(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = program();
        command.args(["fleet", "--json", "--quiet", "--federation", name, "--server", &self.url()]);
        command.arg("--token-file").arg(self.path("enrol.token"));
        command.arg("--model-out").arg(self.path("model.safetensors"));
        command.args(arguments);
        command
    }

    /// The shared model that a fleet wrote.
    pub(crate) fn model(&self) -> Vec<f32> {
        let bytes = fs::read(self.path("model.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let mut names = tensors.names();
        names.sort_unstable();
        names.iter().flat_map(|name| floats(tensors.tensor(name).unwrap().data())).collect()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("server.log")).unwrap()
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

/// The result of the simulator with the same settings.
pub(crate) struct Simulated {
    /// Tables by name; rows end with the bias if there is one.
    pub(crate) model: Vec<f32>,
    pub(crate) rounds: u64,
    /// People of a click log in training.
    pub(crate) people: Option<u64>,
    /// The epsilon spent; null without noise.
    pub(crate) epsilon: Value,
}

pub(crate) fn simulate(folder: &Path, model: &str, data: &[&str], settings: &[&str]) -> Simulated {
    let out = folder.join("simulated");
    let mut command = program();
    command.args(["train", "--json", "--quiet", "--model", model, "--out"]).arg(&out).arg("--data").args(data);
    settings.iter().for_each(|setting| {
        command.args(["--set", setting]);
    });
    let told: Value = serde_json::from_str(&printed(&mut command)).unwrap();
    let bytes = fs::read(out.join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let mut names: Vec<&str> = tensors.names().iter().filter_map(|name| name.strip_prefix("model.")).collect();
    names.sort_unstable();
    let of = |name: &str| tensors.tensor(&format!("model.{name}"));
    let is_bias = |name: &str| name.ends_with("bias");
    let mut model = Vec::new();
    for name in names.iter().copied().filter(|&name| name != "users" && !is_bias(name)) {
        let table = of(name).unwrap();
        let (width, values) = (table.shape()[1], floats(table.data()));
        let bias = ["bias".to_owned(), format!("{name}_bias")].iter().find_map(|bias| of(bias).ok());
        let bias = bias.map(|bias| floats(bias.data())).filter(|bias| bias.len() * width == values.len());
        for (row, values) in values.chunks(width).enumerate() {
            model.extend_from_slice(values);
            model.extend(bias.as_ref().map(|bias| bias[row]));
        }
    }
    fs::remove_dir_all(out).unwrap();
    let epsilon = told["privacy"]["epsilon"].clone();
    let people = told["data"]["people"].as_u64().and(told["data"]["train"].as_u64());
    Simulated { model, rounds: told["turnout"]["rounds"].as_u64().unwrap(), people, epsilon }
}

/// Runs a command, expects success, and returns what it printed.
pub(crate) fn printed(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// Runs a command, expects it to fail, and returns its error message.
pub(crate) fn error_of(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    assert!(!output.status.success(), "{command:?} succeeded");
    String::from_utf8_lossy(&output.stderr).into_owned()
}
