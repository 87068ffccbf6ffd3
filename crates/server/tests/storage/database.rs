//! Databases for tests.

use ::postgres::{Client, NoTls};
use sottovoce_server::storage::{Storage, StorageError, open};
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// The URL of a PostgreSQL server for tests; `cargo xtask test` starts one and sets it.
const VARIABLE: &str = "SOTTOVOCE_TEST_POSTGRES";

/// An empty database, removed when dropped.
pub(crate) struct TestDatabase {
    pub(crate) url: String,
    rest: Rest,
}

enum Rest {
    Folder { _folder: TempDir },
    Schema { base: String, name: String },
}

impl TestDatabase {
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("server.db").display());
        Self { url, rest: Rest::Folder { _folder: folder } }
    }

    /// `None` if there is no PostgreSQL server for tests.
    pub(crate) fn postgres() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let base = std::env::var(VARIABLE).ok()?;
        let name = format!("test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        sql(&base, &format!("CREATE SCHEMA {name}"));
        let url = format!("{base}?options=-c%20search_path%3D{name}");
        Some(Self { url, rest: Rest::Schema { base, name } })
    }

    /// Runs a test if there is a PostgreSQL server; otherwise skips it, or fails in continuous integration.
    pub(crate) fn with_postgres(test: impl FnOnce(&Self)) {
        match Self::postgres() {
            Some(database) => test(&database),
            None => skip(),
        }
    }

    pub(crate) fn open(&self) -> Box<dyn Storage> {
        self.try_open().unwrap()
    }

    pub(crate) fn try_open(&self) -> Result<Box<dyn Storage>, StorageError> {
        open(&self.url)
    }

    /// Runs statements as another program, in the test's schema.
    pub(crate) fn execute(&self, statements: &str) {
        sql(&self.url, statements);
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if let Rest::Schema { base, name } = &self.rest {
            sql(base, &format!("DROP SCHEMA {name} CASCADE"));
        }
    }
}

fn sql(url: &str, statements: &str) {
    Client::connect(url, NoTls).unwrap().batch_execute(statements).unwrap();
}

fn skip() {
    let ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
    assert!(!ci, "{VARIABLE} is not set, but continuous integration skips no test");
    eprintln!("SKIPPED: no PostgreSQL for tests ({VARIABLE} is not set; `cargo xtask test` starts one)");
}
