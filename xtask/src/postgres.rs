//! A PostgreSQL of our own for the tests: a cluster in a temporary folder, on a free port of this machine only, run by
//! an unprivileged user, and gone with this program however that ends.

use crate::process::{output, program, shown};
use anyhow::{Context, Result, ensure};
use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Tells the tests where a PostgreSQL is in which they may make what they like.
pub(crate) const VARIABLE: &str = "SOTTOVOCE_TEST_POSTGRES";

/// What the tests say where there is none.
pub(crate) const LEFT_OUT: &str = "the tests against PostgreSQL were LEFT OUT: it could not be installed";

/// A running cluster.
pub(crate) struct Cluster {
    port: u16,
    /// Waits until this program is gone or done, then stops the cluster and removes its folder.
    guard: Child,
}

/// Whether PostgreSQL's server programs are installed.
pub(crate) fn is_there() -> bool {
    programs().is_some()
}

/// The folder of `initdb` and `pg_ctl`: on the path, or where Debian puts them, the newest.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut debian: Vec<_> = debian.map(|version| version.path()).collect();
    debian.sort_by_key(|version| version.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
    let debian = debian.into_iter().rev().map(|version| version.join("bin"));
    let complete = |folder: &PathBuf| folder.join("initdb").is_file() && folder.join("pg_ctl").is_file();
    std::env::split_paths(&path).chain(debian).find(complete)
}

impl Cluster {
    /// Starts one; `None` where PostgreSQL is not installed.
    pub(crate) fn start() -> Result<Option<Self>> {
        let Some(programs) = programs() else { return Ok(None) };
        let folder = std::env::temp_dir().join(format!("sottovoce-postgres-{}", std::process::id()));
        let owner = Owner::find()?;
        fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        // From here on there is something to tidy up, whatever happens.
        let guard = owner.own(&folder).and_then(|()| guard(&owner, &programs, &folder));
        let cluster = match guard {
            Ok(guard) => Self { port, guard },
            Err(error) => {
                let _ = fs::remove_dir_all(&folder);
                return Err(error);
            }
        };
        println!("a private PostgreSQL on port {port}, in {}", folder.display());
        run(&owner, &programs, &folder, port)?;
        Ok(Some(cluster))
    }

    /// Where it is.
    pub(crate) fn url(&self) -> String {
        format!("postgres://sottovoce@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// Its input ends when this program does.
fn guard(owner: &Owner, programs: &Path, folder: &Path) -> Result<Child> {
    let script = "trap '' INT TERM HUP; cat >/dev/null
        \"$1/pg_ctl\" --pgdata=\"$2/data\" --mode=immediate --silent stop; rm -rf \"$2\"";
    let mut command = owner.command("sh", Path::new("/"));
    command.args(["-c", script, "sh"]).arg(programs).arg(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("the guard of the private PostgreSQL did not start")
}

fn run(owner: &Owner, programs: &Path, folder: &Path, port: u16) -> Result<()> {
    let data = folder.join("data");
    let initdb = ["--auth=trust", "--username=sottovoce", "--encoding=UTF8", "--locale=C", "--no-sync"];
    quiet(owner.command(programs.join("initdb"), folder).args(initdb).arg("--pgdata").arg(&data))?;
    let mut options =
        OsString::from(format!("-p {port} -c listen_addresses=127.0.0.1 -c max_connections=200"));
    options.push(" -c unix_socket_directories=''");
    let mut start = owner.command(programs.join("pg_ctl"), folder);
    start.arg("--pgdata").arg(&data).arg("--log").arg(folder.join("log")).arg("--options").arg(options);
    quiet(start.args(["--wait", "--silent", "start"])).with_context(|| {
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        format!("PostgreSQL did not start; its log says:\n{log}")
    })
}

/// Not `output`: a daemon would keep its pipe open.
fn quiet(command: &mut Command) -> Result<()> {
    let line = shown(command);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("`{line}` did not start"))?;
    ensure!(status.success(), "`{line}` failed ({status})");
    Ok(())
}

/// Who runs it: PostgreSQL refuses to be run by the superuser, who lends it to Debian's user of that name.
struct Owner(Option<(u32, u32)>);

impl Owner {
    fn find() -> Result<Self> {
        let number = |arguments: &[&str]| -> Result<u32> {
            Ok(output(program("id").args(arguments))?.trim().parse()?)
        };
        if number(&["-u"])? != 0 {
            return Ok(Self(None));
        }
        let found = number(&["-u", "postgres"]).and_then(|user| Ok((user, number(&["-g", "postgres"])?)));
        Ok(Self(Some(found.context("there is no user `postgres` to run PostgreSQL as")?)))
    }

    fn own(&self, folder: &Path) -> Result<()> {
        if let Some((user, group)) = self.0 {
            std::os::unix::fs::chown(folder, Some(user), Some(group))?;
        }
        Ok(())
    }

    fn command(&self, name: impl AsRef<std::ffi::OsStr>, folder: &Path) -> Command {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(name);
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
        command.current_dir(folder);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn a_cluster_answers_and_is_gone_afterwards() {
        let Some(cluster) = Cluster::start().unwrap() else {
            assert!(!crate::process::is_ci(), "{LEFT_OUT}");
            return eprintln!("{LEFT_OUT}");
        };
        let address = ("127.0.0.1", cluster.port);
        let folder = std::env::temp_dir().join(format!("sottovoce-postgres-{}", std::process::id()));
        assert!(TcpStream::connect(address).is_ok() && folder.join("data").exists());
        assert!(cluster.url().contains(&format!(":{}/", cluster.port)));
        drop(cluster);
        assert!(TcpStream::connect(address).is_err() && !folder.exists());
    }
}
