//! The baselines: bare SQLite and bare axum.

use crate::callers::{Outcome, call};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Blobs a second that SQLite stores in transactions of so many, as durably as the server's.
pub(crate) fn sqlite(blob: &[u8], count: u32, batch: u32) -> Result<f64, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mut connection = rusqlite::Connection::open(folder.path().join("bare.sqlite"))?;
    connection.execute_batch(
        "PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         PRAGMA wal_autocheckpoint = 4096; CREATE TABLE body (device INTEGER, bytes BLOB)",
    )?;
    let start = Instant::now();
    for first in (0..count).step_by(batch as usize) {
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached("INSERT INTO body VALUES (?1, ?2)")?;
            for device in first..(first + batch).min(count) {
                insert.execute((device, blob))?;
            }
        }
        transaction.commit()?;
    }
    Ok(f64::from(count) / start.elapsed().as_secs_f64())
}

/// Answers a second of a handler that does nothing.
pub(crate) async fn axum(callers: usize, count: usize) -> Result<Outcome, Box<dyn Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let app = Router::new().route(
        "/v1/federations/{federation}/check-in",
        post(|| async { (StatusCode::NO_CONTENT, [("retry-after", "60"), ("cache-control", "no-store")]) }),
    );
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let credential = "svd_".to_owned() + &"x".repeat(43);
    let request = crate::world::check_in("load", &credential);
    let rate = call(address, callers, count, Arc::new(move |_| request.clone()), 204).await?;
    serving.abort();
    Ok(Outcome { rate, p50: Duration::ZERO, p99: Duration::ZERO })
}
