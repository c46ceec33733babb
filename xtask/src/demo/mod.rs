//! `cargo xtask demo`: the extension at work, from one command on a machine that has nothing yet.
//!
//! A throw-away server, a database that looks like someone's, one clone by blockwise and one by core; then both
//! times, both WAL volumes, and whether the clones are what their source is.

mod clones;
mod shop;

use crate::cache::Cache;
use crate::exec::{self, doing, say};
use crate::postgres::{self, Server};
use crate::user::Privilege;
use crate::{repo, setup};
use anyhow::{Context, Result, bail};
use pg_test::{Cluster, ClusterBuilder, Installation, StopMode};
use std::time::Instant;

/// What `cargo xtask demo` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The server's major version: 15 (Debian's package) or 18 (built with assertions).
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(15..=18))]
    pg: u16,
    /// Leave the server running afterwards and print how to look around in it.
    #[arg(long)]
    keep: bool,
    /// The size of the pgbench tables: 1 is about 16 MB.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    scale: u32,
}

/// The command.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !matches!(options.pg, 15 | 18) {
        bail!("the demo runs on PostgreSQL 15 and 18, not {}", options.pg);
    }
    let start = Instant::now();
    let cache = Cache::open()?;
    setup::ensure(&cache)?;
    let server = postgres::ensure(&cache, options.pg, false)?;
    let _lock = cache.lock("installed-extension")?;
    install(&cache, &server)?;
    let installation = Installation::new(&server.pg_config)?;
    let cluster = doing("starting a throw-away server: checksums on, no TCP", || {
        start_cluster(&installation, options.keep)
    })?;
    let outcome = show(&cluster, &server, options);
    if outcome.is_err() {
        // The harness would complain about the log when the cluster goes; our error says more.
        cluster.allow_log("");
        if options.keep {
            say(&stop_lines(&cluster));
        }
    }
    outcome?;
    say(&format!("\nDone in {}.", exec::seconds(start.elapsed())));
    if options.keep {
        let (clone, postgres) = (cluster.psql_line("shop_copy"), cluster.psql_line("postgres"));
        println!("\nThe server is still running. Look around in the clone:\n  {clone}");
        println!("Make another:\n  {postgres} -c \"CALL blockwise.clone_database('shop', 'mine')\"");
        println!("{}", stop_lines(&cluster));
        return Ok(());
    }
    Ok(cluster.stop(StopMode::Fast)?)
}

/// Builds the extension as a user would have it, optimised, and installs it into the server.
fn install(cache: &Cache, server: &Server) -> Result<()> {
    let root = repo::root()?;
    let mut cargo = exec::command("cargo");
    cargo.current_dir(&root).env("PGRX_HOME", &server.pgrx_home);
    cargo.env("CARGO_TARGET_DIR", repo::target_dir(&root, cache)?);
    cargo
        .args(["pgrx", "install", "--release", "--pg-config"])
        .arg(&server.pg_config);
    cargo.args(["--no-default-features", "--features", &server.feature()]);
    if server.is_packaged() && Privilege::detect() == Privilege::Sudo {
        cargo.arg("--sudo");
    }
    let what = format!(
        "building blockwise, optimised, and installing it into PostgreSQL {}",
        server.label()
    );
    exec::step(&what, &mut cargo, &cache.log("demo-install")?)
}

/// A server with the settings of a small machine.
fn start_cluster(installation: &Installation, keep: bool) -> Result<Cluster> {
    let builder = ClusterBuilder::new(installation)
        .set("shared_buffers", "256MB")
        .set("max_wal_size", "8GB")
        .set("checkpoint_timeout", "30min")
        // The clones are compared row by row with their source, statistics included: nothing may change them.
        .set("autovacuum", "off")
        .keep(keep);
    Ok(builder.start()?)
}

/// Source, clones, table.
fn show(cluster: &Cluster, server: &Server, options: &Options) -> Result<()> {
    cluster
        .session("postgres")?
        .batch("CREATE EXTENSION blockwise")
        .context("CREATE EXTENSION blockwise")?;
    let what = format!(
        "building database shop: pgbench scale {}, and a schema with all that core has",
        options.scale
    );
    doing(&what, || shop::build(cluster, options.scale))?;
    let clones = clones::make(cluster)?;
    println!("\n{}", clones::table(&clones));
    if server.assertions {
        println!("This server checks its own assertions, so all times are longer than a user would see.");
    }
    if clones.iter().all(|clone| clone.difference.is_none()) {
        println!("identical: yes");
        return Ok(());
    }
    println!("identical: no");
    let differences = clones.iter().filter_map(|clone| clone.difference.as_deref());
    bail!("{}", differences.collect::<Vec<_>>().join("\n"))
}

/// How to end a server that was kept.
fn stop_lines(cluster: &Cluster) -> String {
    let pg_ctl = cluster.installation().bindir().join("pg_ctl");
    let user = if Privilege::detect() == Privilege::Root {
        "runuser -u postgres -- "
    } else {
        ""
    };
    format!(
        "Stop it and remove it:\n  {user}{} -D {} -m fast stop && rm -r {}",
        pg_ctl.display(),
        cluster.data().display(),
        cluster.folder().display()
    )
}
