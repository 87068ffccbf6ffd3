//! Where plans run: in this process, or on a cluster.

use crate::functions;
use crate::store::Stores;
use anyhow::{Context, Result, anyhow};
#[cfg(feature = "cluster")]
use ballista_core::extension::{SessionConfigExt, SessionStateExt};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{FunctionRegistry as _, SendableRecordBatchStream, SessionState, SessionStateBuilder};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures_util::{StreamExt, TryStreamExt};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A table of a query: files of one schema.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The name in the query.
    pub name: &'static str,
    /// Addresses of the files.
    pub files: Vec<String>,
    /// Their schema.
    pub schema: SchemaRef,
}

/// A query over some tables.
#[derive(Clone, Debug)]
pub struct Query {
    /// What it reads.
    pub scans: Vec<Scan>,
    /// SQL. Large constants are `$name`.
    pub sql: String,
    /// The large constants.
    pub constants: Vec<(&'static str, ScalarValue)>,
}

/// How many times a step is submitted to a cluster before the job gives up. The waits between add up to about three
/// minutes: enough to start a scheduler again.
const ATTEMPTS: u32 = 20;
/// How many of these may end by the time-out, which would otherwise add up to hours.
const TIMEOUTS: u32 = 3;
/// How much longer each wait is than the one before.
const WAIT: Duration = Duration::from_millis(500);

/// Runs queries.
#[derive(Clone)]
pub struct Engine {
    runtime: Arc<RuntimeEnv>,
    threads: usize,
    scheduler: Option<String>,
    step_timeout: Duration,
}

impl Engine {
    /// An engine in this process with so many threads and bytes of memory, beyond which it spills to disk; with a
    /// scheduler (`HOST:PORT`), its cluster's, where a step that has not finished by the time-out is submitted again.
    ///
    /// # Errors
    /// If the engine does not start.
    pub fn new(threads: usize, memory: usize, scheduler: Option<&str>, step_timeout: Duration) -> Result<Self> {
        let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::OsTmpDirectory);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(memory)))
            .with_disk_manager_builder(disk)
            .with_object_store_registry(Arc::new(Stores::default()))
            .build_arc()?;
        Ok(Self {
            runtime,
            threads: threads.max(1),
            scheduler: scheduler.map(|at| format!("http://{at}")),
            step_timeout,
        })
    }

    /// Threads, and queries that are worth running at the same time.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// A session whose plans have so many parallel parts.
    fn session(&self, partitions: usize) -> Result<SessionContext> {
        let state = state(config().with_target_partitions(partitions), self.runtime.clone());
        Ok(SessionContext::new_with_state(match &self.scheduler {
            Some(url) => on_cluster(state, url)?,
            None => state,
        }))
    }

    /// The rows of a query, which is to be spread over so many parts.
    ///
    /// # Errors
    /// If it cannot be planned or started.
    pub async fn stream(&self, query: &Query, partitions: usize) -> Result<SendableRecordBatchStream> {
        let session = self.session(partitions)?;
        for Scan { name, files, schema } in &query.scans {
            let options = ParquetReadOptions::default().schema(schema);
            let table = session.read_parquet(files.clone(), options).await?;
            session.register_table(*name, table.into_view())?;
        }
        let plan = session.sql(&query.sql).await.with_context(|| Planning(query.sql.clone()))?;
        let plan = match query.constants.is_empty() {
            true => plan,
            false => plan.with_param_values(query.constants.clone())?,
        };
        Ok(plan.execute_stream().await?)
    }

    /// All rows of a query with a small result.
    ///
    /// # Errors
    /// If it fails, on a cluster again and again.
    pub async fn collect(&self, query: &Query) -> Result<Vec<RecordBatch>> {
        self.retry(|| async { Ok(self.stream(query, self.threads).await?.try_collect().await?) }).await
    }

    /// Does a step that reads from queries. On a cluster, where machines come and go, a step that failed is done again:
    /// steps write nothing until they are complete, and give the same bytes every time. It always ends: with a cluster
    /// that never answers after three time-outs, with one that always fails after [`ATTEMPTS`] errors.
    ///
    /// # Errors
    /// The step's error; on a cluster the last one.
    pub async fn retry<T, F: Future<Output = Result<T>>>(&self, step: impl Fn() -> F) -> Result<T> {
        if self.scheduler.is_none() {
            return step().await;
        }
        let (mut attempts, mut timeouts) = (0, 0);
        loop {
            attempts += 1;
            // A scheduler was seen to wait without end for a task whose executor had been killed.
            let (error, wait) = match tokio::time::timeout(self.step_timeout, step()).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(error)) if error.is::<Planning>() => return Err(error),
                Ok(Err(error)) => (error, WAIT * attempts),
                Err(_) => {
                    timeouts += 1;
                    (anyhow!("no answer for {} s", self.step_timeout.as_secs_f32()), Duration::ZERO)
                }
            };
            if attempts == ATTEMPTS || timeouts == TIMEOUTS {
                return Err(error.context(format!("the cluster failed {attempts} times")));
            }
            eprintln!("the cluster failed ({}); submitting again", first_line(&error));
            tokio::time::sleep(wait).await;
        }
    }

    /// Does something for each number below `count`, several at the same time.
    ///
    /// # Errors
    /// The first error.
    pub async fn each<T, F>(&self, count: usize, run: impl Fn(usize) -> F) -> Result<Vec<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let tasks = futures_util::stream::iter((0..count).map(|at| tokio::spawn(run(at))));
        tasks.buffered(self.threads).map(|done| done?).try_collect().await
    }
}

fn first_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}

/// A session whose plans run on the cluster of a scheduler.
#[cfg(feature = "cluster")]
fn on_cluster(state: SessionState, url: &str) -> Result<SessionState> {
    // The functions are not taken along.
    Ok(with_functions(state.upgrade_for_ballista(url.to_owned())?))
}

#[cfg(not(feature = "cluster"))]
fn on_cluster(_: SessionState, _: &str) -> Result<SessionState> {
    Err(Planning("this program was built without the feature `cluster`".to_owned()).into())
}

/// The settings of all sessions, here and on a cluster.
pub(crate) fn config() -> SessionConfig {
    #[cfg(feature = "cluster")]
    let config = SessionConfig::new_with_ballista();
    #[cfg(not(feature = "cluster"))]
    let config = SessionConfig::new();
    let mut config = config.with_information_schema(false);
    let parquet = &mut config.options_mut().execution.parquet;
    // Only rows of people who were active are decoded.
    parquet.pushdown_filters = true;
    config
}

/// A session with the functions of the pipeline.
pub(crate) fn state(config: SessionConfig, runtime: Arc<RuntimeEnv>) -> SessionState {
    let builder = SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features();
    with_functions(builder.build())
}

fn with_functions(mut state: SessionState) -> SessionState {
    for function in functions::all() {
        // Nothing of the same name is there, and a session takes any function.
        let _ = state.register_udf(function);
    }
    for aggregate in functions::all_aggregates() {
        let _ = state.register_udaf(aggregate);
    }
    state
}

/// A query that no repetition makes better.
#[derive(Debug)]
struct Planning(String);

impl std::fmt::Display for Planning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "this query has no plan: {}", self.0)
    }
}

impl std::error::Error for Planning {}
