//! `cargo xtask test`: everything that CI runs, stage by stage.
//!
//! The quick stages come first. A stage that fails does not end the run, so that one run shows all failures;
//! only what depends on a failed stage is left out.

mod build;
mod regress;
mod report;
mod server;

use crate::cache::Cache;
use crate::postgres::{self, Server};
use crate::{exec, repo, setup, tidy};
use anyhow::{Result, bail};
use report::Report;
use std::path::PathBuf;
use std::process::Command;

/// What `cargo xtask test` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these major versions (15, 17, 18; 17 is a build check). Default: all of them.
    #[arg(long = "pg", value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(15..=18))]
    majors: Vec<u16>,
    /// Also run on a PostgreSQL 15 built with assertions.
    #[arg(long)]
    deep: bool,
    /// Let the cluster tests that run for a given time run for this many minutes.
    #[arg(long, value_name = "MINUTES")]
    soak: Option<u32>,
    /// Run only the cluster tests whose names contain this, and none of the other stages.
    filter: Option<String>,
}

/// What every stage needs to know.
struct Context {
    root: PathBuf,
    cache: Cache,
    target: PathBuf,
    soak: Option<u32>,
    filter: Option<String>,
}

impl Context {
    /// Looks around.
    fn new(options: &Options) -> Result<Self> {
        let cache = Cache::open()?;
        let root = repo::root()?;
        let target = repo::target_dir(&root, &cache)?;
        Ok(Self {
            root,
            cache,
            target,
            soak: options.soak,
            filter: options.filter.clone(),
        })
    }

    /// A cargo command in the repository that builds against `server`.
    fn cargo(&self, server: &Server) -> Command {
        let mut cargo = self.plain_cargo();
        cargo.env("PGRX_HOME", &server.pgrx_home);
        // cargo-pgrx would link libraries with a flag of its own and thereby build every dependency twice. The
        // flag helps linkers that drop the schema section; where that happens the installation fails and says so.
        cargo.env("CARGO_PGRX_DISABLE_GC_SECTIONS_WORKAROUND", "1");
        if server.major == 15 && server.assertions {
            // Same major version, other headers: cargo could not tell the two builds apart.
            cargo.env("CARGO_TARGET_DIR", self.target.join("pg15-assertions"));
        }
        cargo
    }

    /// A cargo command that needs no server.
    fn plain_cargo(&self) -> Command {
        let mut cargo = exec::command("cargo");
        cargo
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target);
        cargo
    }

    /// The features to build with for `server`, beside its version's own.
    fn features(&self, server: &Server, more: &str) -> [String; 3] {
        let features = format!("{} {more}", server.feature());
        [
            "--no-default-features".into(),
            "--features".into(),
            features.trim_end().into(),
        ]
    }

    /// Runs one command of a stage, with a log of its own.
    fn step(&self, what: &str, command: &mut Command) -> Result<()> {
        let name: String = what
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        exec::step(what, command, &self.cache.log(&format!("test-{name}"))?)
    }
}

/// The command.
pub(crate) fn run(options: &Options) -> Result<()> {
    let context = Context::new(options)?;
    let mut report = Report::new();
    let majors = chosen(&options.majors)?;
    let quick = context.filter.is_none();
    if quick {
        report.stage("tidy", tidy::run);
        report.stage("fmt", || build::format(&context));
    }
    let servers = prepare(&context, &mut report, &majors, options.deep);
    if quick {
        build::stages(&context, &mut report, &servers);
    }
    // An extension is installed into a server for everybody: tests must not find another one half-way.
    let _lock = context.cache.lock("installed-extension")?;
    let tested =
        |server: &&Server| server.major != 17 && (majors.contains(&server.major) || server.assertions);
    for server in servers.iter().filter(tested) {
        server::stages(&context, &mut report, server);
    }
    report.finish()
}

/// The major versions to look at.
fn chosen(asked: &[u16]) -> Result<Vec<u16>> {
    if let Some(unknown) = asked.iter().find(|major| ![15, 17, 18].contains(*major)) {
        bail!("there are no tests on PostgreSQL {unknown}; there are on 15 and 18, and 17 is a build check");
    }
    Ok(if asked.is_empty() {
        vec![15, 17, 18]
    } else {
        asked.to_vec()
    })
}

/// Makes every server available before the first build: bindings are made anew whenever one is added.
fn prepare(context: &Context, report: &mut Report, majors: &[u16], deep: bool) -> Vec<Server> {
    if !report.stage("set-up", || setup::ensure(&context.cache)) {
        return Vec::new();
    }
    // The workspace is always built against 15; tests run on it only if that was asked for.
    let mut wanted = vec![(15, false)];
    wanted.extend(
        majors
            .iter()
            .filter(|major| **major != 15)
            .map(|major| (*major, *major == 18)),
    );
    if deep {
        wanted.push((15, true));
    }
    let mut servers = Vec::new();
    for (major, assertions) in wanted {
        let name = if major == 17 {
            "headers 17".to_owned()
        } else {
            format!("server {major}{}", mark(assertions))
        };
        report.stage(&name, || {
            servers.push(postgres::ensure(&context.cache, major, assertions)?);
            Ok(())
        });
    }
    servers
}

/// How a stage's name tells that the server has assertions.
fn mark(assertions: bool) -> &'static str {
    if assertions { "+assert" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_choice_every_version_is_looked_at() -> Result<()> {
        assert_eq!(chosen(&[])?, [15, 17, 18]);
        assert_eq!(chosen(&[18])?, [18]);
        assert!(chosen(&[16]).is_err());
        Ok(())
    }
}
