//! `cargo xtask bench`: blockwise beside core, measured on the user's own machine.
//!
//! A measurement is no test: it prints what it found and ends with success, whether a bar was met or not. Whatever
//! is compared runs in turns on one server, after a warm-up, and is told as medians with their spread.

mod clone;
mod install;
mod machine;
mod place;
mod stats;
mod table;

use anyhow::Result;

/// What `cargo xtask bench` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// What to measure.
    #[command(subcommand)]
    what: What,
}

/// One variant a measurement.
#[derive(Debug, clap::Subcommand)]
enum What {
    /// Clone databases, in turns with `CREATE DATABASE … STRATEGY wal_log`.
    Clone(clone::Options),
}

/// The command.
pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.what {
        What::Clone(options) => clone::run(options),
    }
}
