//! The project's own commands: `cargo xtask test`, `bench`, `tidy`, `postgres`, `demo`.
//!
//! Everything that builds, checks or shows blockwise is written here once, in Rust, and CI calls the same
//! commands as people do. Each command says what it does before it does it, keeps what it made in a cache
//! outside the repository, and is quick the second time.

mod bench;
mod cache;
mod demo;
mod exec;
mod pgrx;
mod postgres;
mod repo;
mod setup;
mod test;
mod tidy;
mod user;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    about = "blockwise's own commands",
    max_term_width = 100
)]
struct Cli {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

/// One variant a command.
#[derive(Debug, Subcommand)]
enum Command {
    /// Show a clone beside core's on a throw-away server with a database that looks like someone's.
    Demo(demo::Options),
    /// Measure blockwise beside core on this machine.
    Bench(bench::Options),
    /// Run everything that CI runs: style, lints, docs, unit tests, and the tests on real servers.
    Test(test::Options),
    /// Check the house's own style rules.
    Tidy,
    /// Make a PostgreSQL available and print the path of its pg_config.
    Postgres(postgres::Options),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Demo(options) => demo::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Test(options) => test::run(&options),
        Command::Tidy => tidy::run(),
        Command::Postgres(options) => postgres::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
