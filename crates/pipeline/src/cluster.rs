//! Scheduler and executors of a cluster: Ballista's, with the functions of the pipeline.

use crate::engine::{config, state};
use crate::functions;
use crate::store::Stores;
use anyhow::{Context, Result};
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use clap::Args;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use std::path::PathBuf;
use std::sync::Arc;

/// Seconds between two signs of life of an executor. The scheduler gives its tasks to others after four.
const HEARTBEAT: u64 = 5;

/// `scheduler`.
#[derive(Debug, Args)]
pub struct SchedulerArgs {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    bind: String,
    /// Port to listen on
    #[arg(long, default_value_t = 50050)]
    port: u16,
    /// Name or address by which executors and jobs reach this machine [default: that of --bind]
    #[arg(long)]
    host: Option<String>,
}

/// `executor`.
#[derive(Debug, Args)]
pub struct ExecutorArgs {
    /// The scheduler
    #[arg(long, value_name = "HOST:PORT")]
    scheduler: String,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    bind: String,
    /// Port for data
    #[arg(long, default_value_t = 50051)]
    port: u16,
    /// Port for commands of the scheduler
    #[arg(long, default_value_t = 50052)]
    command_port: u16,
    /// Name or address by which others reach this machine [default: that of --bind]
    #[arg(long)]
    host: Option<String>,
    /// Tasks at a time [default: all cores]
    #[arg(long)]
    threads: Option<usize>,
    /// Memory in MiB for sorting and grouping, beyond which data goes to temporary files
    #[arg(long, default_value_t = 4096)]
    memory: u64,
    /// Folder for what goes from stage to stage [default: one of its own among the system's temporary folders]
    #[arg(long)]
    work_dir: Option<PathBuf>,
}

fn runtime() -> datafusion::error::Result<Arc<RuntimeEnv>> {
    RuntimeEnvBuilder::new().with_object_store_registry(Arc::new(Stores::default())).build_arc()
}

/// Runs a scheduler until it is stopped.
///
/// # Errors
/// If it cannot listen there.
pub async fn scheduler(args: &SchedulerArgs) -> Result<()> {
    let address = format!("{}:{}", args.bind, args.port);
    let address = address.parse().with_context(|| format!("{address}: expected an IP address and a port"))?;
    let settings = SchedulerConfig {
        bind_host: args.bind.clone(),
        bind_port: args.port,
        external_host: args.host.clone().unwrap_or_else(|| args.bind.clone()),
        executor_timeout_seconds: 4 * HEARTBEAT,
        expire_dead_executor_interval_seconds: HEARTBEAT,
        no_executors_grace_period_seconds: 12 * HEARTBEAT,
        override_session_builder: Some(Arc::new(|config| Ok(state(config, runtime()?)))),
        override_config_producer: Some(Arc::new(config)),
        ..SchedulerConfig::default()
    };
    let cluster = BallistaCluster::new_from_config(&settings).await?;
    println!("scheduler on {address}");
    start_server(cluster, address, Arc::new(settings)).await.with_context(|| format!("scheduler on {address}"))
}

/// Runs an executor until it is stopped.
///
/// # Errors
/// If it cannot listen there, or the scheduler's address is none.
pub async fn executor(args: &ExecutorArgs) -> Result<()> {
    let scheduler = args.scheduler.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (scheduler_host, scheduler_port) =
        scheduler.with_context(|| format!("--scheduler {}: expected HOST:PORT", args.scheduler))?;
    let own = format!("sottovoce-executor-{}", args.port);
    let work_dir = args.work_dir.clone().unwrap_or_else(|| std::env::temp_dir().join(own));
    std::fs::create_dir_all(&work_dir).with_context(|| work_dir.display().to_string())?;
    let mut registry = BallistaFunctionRegistry::default();
    registry.scalar_functions.extend(functions::all().into_iter().map(|one| (one.name().to_owned(), one)));
    registry
        .aggregate_functions
        .extend(functions::all_aggregates().into_iter().map(|one| (one.name().to_owned(), one)));
    let settings = ExecutorProcessConfig {
        bind_host: args.bind.clone(),
        external_host: Some(args.host.clone().unwrap_or_else(|| args.bind.clone())),
        port: args.port,
        grpc_port: args.command_port,
        scheduler_host: scheduler_host.to_owned(),
        scheduler_port,
        // Long enough for a scheduler that is started after its executors.
        scheduler_connect_timeout_seconds: 60,
        vcores: args.threads.unwrap_or(0),
        work_dir: Some(work_dir.display().to_string()),
        executor_heartbeat_interval_seconds: HEARTBEAT,
        job_data_clean_up_interval_seconds: 600,
        job_data_ttl_seconds: 24 * 3600,
        memory_pool_size: Some(args.memory << 20),
        override_function_registry: Some(Arc::new(registry)),
        override_runtime_producer: Some(Arc::new(|_| runtime())),
        override_config_producer: Some(Arc::new(config)),
        ..ExecutorProcessConfig::default()
    };
    println!("executor on {}:{} for {}", args.bind, args.port, args.scheduler);
    let running = start_executor_process(Arc::new(settings)).await;
    running.with_context(|| format!("executor on {}:{}", args.bind, args.port))
}
