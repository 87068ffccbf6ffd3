//! Where a test keeps its database.

use ::postgres::{Client, NoTls};
use sottovoce_server::storage::{Storage, StorageError, open};
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// Names the PostgreSQL that tests may use; `cargo xtask test` starts one and sets it.
const VARIABLE: &str = "SOTTOVOCE_TEST_POSTGRES";

/// An empty database of a test's own, which is gone with it.
pub(crate) struct Place {
    pub(crate) url: String,
    rest: Rest,
}

enum Rest {
    Folder { _folder: TempDir },
    Schema { base: String, name: String },
}

impl Place {
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("server.db").display());
        Self { url, rest: Rest::Folder { _folder: folder } }
    }

    /// `None` where there is no PostgreSQL to test with.
    pub(crate) fn postgres() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let base = std::env::var(VARIABLE).ok()?;
        let name = format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        sql(&base, &format!("CREATE SCHEMA {name}"));
        let url = format!("{base}?options=-c%20search_path%3D{name}");
        Some(Self { url, rest: Rest::Schema { base, name } })
    }

    /// Runs a test if there is a PostgreSQL; says so if there is none.
    pub(crate) fn with_postgres(test: impl FnOnce(&Self)) {
        match Self::postgres() {
            Some(place) => test(&place),
            None => left_out(),
        }
    }

    pub(crate) fn open(&self) -> Box<dyn Storage> {
        self.try_open().unwrap()
    }

    pub(crate) fn try_open(&self) -> Result<Box<dyn Storage>, StorageError> {
        open(&self.url)
    }

    /// Statements by somebody else, in the test's schema.
    pub(crate) fn meddle(&self, statements: &str) {
        sql(&self.url, statements);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Rest::Schema { base, name } = &self.rest {
            sql(base, &format!("DROP SCHEMA {name} CASCADE"));
        }
    }
}

fn sql(url: &str, statements: &str) {
    Client::connect(url, NoTls).unwrap().batch_execute(statements).unwrap();
}

fn left_out() {
    let automatic = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
    assert!(!automatic, "{VARIABLE} is not set; an automatic run leaves nothing out");
    eprintln!("LEFT OUT: no PostgreSQL to test with ({VARIABLE} is not set; `cargo xtask test` starts one)");
}

#[test]
fn says_whether_postgres_is_there() {
    match std::env::var(VARIABLE) {
        Ok(url) => eprintln!("tested with the PostgreSQL at {url}"),
        Err(_) => left_out(),
    }
}
