//! The golden files: SQL scripts whose output is compared with what a person once read and found right.
//!
//! They run under the server's own pg_regress, in a server that it starts for them. The scripts are copied
//! first, because the servers' user may neither read the checkout nor write into it.

use super::server::copy_files;
use super::{Context, Server};
use crate::cache::fresh_dir;
use crate::exec::{capture, command, first_existing, indented};
use anyhow::{Context as _, Result, anyhow, bail};
use pg_test::process::{give_to_server_user, server_command};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How many lines of differences are shown.
const DIFF_LINES: usize = 400;

/// The names of all scripts, in the order they run.
fn tests(root: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root.join("pg_test/regress/sql")) else {
        return Vec::new();
    };
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let scripts = paths.filter(|path| path.extension().is_some_and(|extension| extension == "sql"));
    let mut names: Vec<String> = scripts
        .filter_map(|path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names
}

/// Runs all scripts on a server of its own; differences are part of the error.
pub(super) fn run(context: &Context, server: &Server) -> Result<()> {
    let place = context.cache.path(&format!(
        "regress-{}{}",
        server.major,
        super::mark(server.assertions)
    ));
    prepare(context, &place)?;
    let mut regress = pg_regress(server, &place)?;
    let config = place.join("regress.conf");
    if config.exists() {
        regress.arg(format!("--temp-config={}", config.display()));
    }
    let tests = tests(&context.root);
    if tests.is_empty() {
        // pg_regress would be content with nothing to do.
        bail!("there are no scripts in pg_test/regress/sql");
    }
    regress.args(tests);
    let outcome = context.step(
        &format!("comparing the golden files on {}", server.label()),
        &mut regress,
    );
    outcome.map_err(|error| match differences(&place) {
        Some(text) => anyhow!("{error:#}\n{}", indented(&text)),
        None => error,
    })
}

/// Copies scripts, expected output and settings, and hands the copy to the servers' user.
fn prepare(context: &Context, place: &Path) -> Result<()> {
    fresh_dir(place)?;
    let source = context.root.join("pg_test/regress");
    for part in ["sql", "expected"] {
        copy_files(&source.join(part), &place.join(part))?;
    }
    let config = source.join("regress.conf");
    if config.exists() {
        fs::copy(&config, place.join("regress.conf"))?;
    }
    Ok(give_to_server_user(place)?)
}

/// The server's own pg_regress, set to start a server below `place`.
fn pg_regress(server: &Server, place: &Path) -> Result<Command> {
    let ask =
        |option: &str| capture(command(&server.pg_config).arg(option)).map(|text| PathBuf::from(text.trim()));
    let (makefile, bin) = (ask("--pgxs")?, ask("--bindir")?);
    // The makefile is <pgxs>/src/makefiles/pgxs.mk.
    let pgxs = makefile
        .ancestors()
        .nth(3)
        .context("pg_config --pgxs prints no usable path")?;
    let candidates = [pgxs.join("src/test/regress/pg_regress")];
    let program =
        first_existing(&candidates).with_context(|| format!("no pg_regress in {}", pgxs.display()))?;
    let mut regress = server_command(program)?;
    // An empty environment: locale, time zone and backtraces of the caller would show in the output.
    regress
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/tmp");
    regress.current_dir(place);
    for (option, path) in [
        ("--inputdir", place.to_path_buf()),
        ("--outputdir", place.join("out")),
        ("--temp-instance", place.join("instance")),
        ("--bindir", bin),
    ] {
        regress.arg(format!("{option}={}", path.display()));
    }
    regress.args(["--no-locale", "--encoding=UTF8"]);
    Ok(regress)
}

/// What differed, cut to a length that people read.
fn differences(place: &Path) -> Option<String> {
    let text = fs::read(place.join("out/regression.diffs")).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Some(text.lines().take(DIFF_LINES).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_repository_without_scripts_has_no_tests() {
        assert!(super::tests(std::path::Path::new("/no/such/place")).is_empty());
    }
}
