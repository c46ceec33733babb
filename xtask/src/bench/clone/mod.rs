//! `cargo xtask bench clone`: `CALL blockwise.clone_database` in turns with core's `STRATEGY wal_log`.
//!
//! Each case runs both ways in one session on one server: a warm-up, then pair after pair. Before each run the clone of
//! the run before is dropped, a checkpoint is made and the file system synced, so that every run begins alike; after
//! each the next checkpoint is timed, for a way that leaves dirty pages behind has not paid yet.

mod cases;
mod measure;
mod sources;

use super::install::install;
use super::machine::{self, Fact};
use super::place::{FileSystem, Place};
use super::table::{self, Section};
use crate::cache::{Cache, make_readable_dir};
use crate::exec::{self, say};
use crate::postgres::{self, Server};
use crate::{repo, setup};
use anyhow::{Context, Result, bail};
use cases::Case;
use clap::ValueEnum;
use pg_test::Installation;
use std::fs;
use std::time::Instant;

/// What `cargo xtask bench clone` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The server's major version: 15 (Debian's package) or 18 (built with assertions, so all times are longer).
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(15..=18))]
    pg: u16,
    /// How many pairs of runs each case has; the empty template has four times as many.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,
    /// The size of the pgbench database: 1 is about 16 MB.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    scale: u32,
    /// How many tables the database of many tables has.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    relations: u32,
    /// Only this case; may be given several times.
    #[arg(long, value_name = "CASE", value_enum)]
    only: Vec<Case>,
    /// The file system to measure on.
    #[arg(long, value_name = "KIND", value_enum, default_value_t = FileSystem::Xfs)]
    file_system: FileSystem,
}

impl Options {
    fn wants(&self, case: Case) -> bool {
        self.only.is_empty() || self.only.contains(&case)
    }

    /// What the file system has to hold: WAL, the source, its clone, and what is between them.
    fn megabytes(&self) -> u64 {
        const WAL_AND_SMALL: u64 = 8 << 10;
        WAL_AND_SMALL + 4 * 16 * u64::from(self.scale)
    }
}

/// The command.
pub(super) fn run(options: &Options) -> Result<()> {
    if !matches!(options.pg, 15 | 18) {
        bail!("the benchmark runs on PostgreSQL 15 and 18, not {}", options.pg);
    }
    let start = Instant::now();
    let cache = Cache::open()?;
    setup::ensure(&cache)?;
    let server = postgres::ensure(&cache, options.pg, false)?;
    let _lock = cache.lock("installed-extension")?;
    install(&cache, &server)?;
    let installation = Installation::new(&server.pg_config)?;
    let place = Place::make(&installation, options.file_system, options.megabytes())?;
    let outcome = measure_all(&place, options);
    if outcome.is_err() {
        // The harness would complain about the log when the cluster goes; our error says more.
        place.cluster().allow_log("");
    }
    let (facts, sections) = outcome?;
    report(&cache, &server, &facts, &sections)?;
    place.close()?;
    say(&format!("\nDone in {}.", exec::seconds(start.elapsed())));
    Ok(())
}

/// All cases that are wanted, one after the other, and what they were measured on.
fn measure_all(place: &Place, options: &Options) -> Result<(Vec<Fact>, Vec<Section>)> {
    let mut facts = machine::hardware();
    facts.extend(place.facts()?);
    let load = machine::load();
    place.cluster().batch(
        "postgres",
        &["CREATE EXTENSION blockwise", "CREATE EXTENSION pg_buffercache"],
    )?;
    let mut sections = Vec::new();
    let mut sources = sources::Sources::default();
    for &case in Case::value_variants() {
        if options.wants(case) {
            let plan = case.plan(options.scale, options.relations, options.pairs);
            sources.ensure(place.cluster(), plan.source)?;
            sections.push(cases::measure(place, &plan, &mut facts)?);
        }
    }
    facts.push((
        "load average".into(),
        format!("{load} before, {} after", machine::load()),
    ));
    Ok((facts, sections))
}

/// Prints what was found and writes the same as Markdown.
fn report(cache: &Cache, server: &Server, facts: &[Fact], sections: &[Section]) -> Result<()> {
    let notes = notes(server, sections);
    let width = facts
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0);
    println!();
    for (name, value) in facts {
        println!("{name:width$}  {value}");
    }
    println!("\n{}\n{}", table::plain(sections), notes.join("\n"));
    let folder = repo::target_dir(&repo::root()?, cache)?.join("bench");
    make_readable_dir(&folder)?;
    let path = folder.join("clone.md");
    let facts: String = facts
        .iter()
        .map(|(name, value)| format!("- {name}: {value}\n"))
        .collect();
    let text = format!("{facts}\n{}\n{}\n", table::markdown(sections), notes.join("\n\n"));
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("\nThe same as Markdown: {}", path.display());
    Ok(())
}

/// What to know of the numbers, and whether the bars were met.
fn notes(server: &Server, sections: &[Section]) -> Vec<String> {
    let mut notes =
        vec!["Ratios are those of the medians: below 1 ours takes less. MB are 1 000 000 bytes.".to_owned()];
    if server.assertions {
        notes.push(
            "This server checks its own assertions: times are longer than a user would see, and the bars do not \
             count."
                .into(),
        );
    }
    let misses = table::misses(sections);
    if misses.is_empty() {
        notes.push("Every bar was met.".into());
    } else {
        notes.push(format!("MISSED: {}.", misses.join("; ")));
    }
    notes
}
