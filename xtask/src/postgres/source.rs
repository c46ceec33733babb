//! A server with assertions, built from Debian's source package.
//!
//! Only the original tarball is used, without Debian's patches: assertions and our own prefix are all that
//! matters. The newest version that the archive offers is built once and kept.

use super::archive::{Archive, Kind, Unavailable, unavailable};
use super::pg_config_in;
use crate::cache::{Cache, fresh_dir, remove_dir};
use crate::exec::{command, say, step};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

/// What a build's directory holds when it is complete; the number changes when the recipe does.
const STAMP: &str = ".complete-1";

/// The libraries and checks that the server is built with. ICU, LZ4, Zstandard and XML are what Debian's server
/// has and what the tests use.
const CONFIGURE: [&str; 6] = [
    "--enable-cassert",
    "--enable-debug",
    "--with-icu",
    "--with-lz4",
    "--with-zstd",
    "--with-libxml",
];

/// Makes the newest server of a major version available and returns its pg_config.
pub(super) fn ensure(cache: &Cache, major: u16, suite: &'static str) -> Result<PathBuf> {
    let package = format!("postgresql-{major}");
    let offered = Archive::open(cache, suite, Kind::Source)
        .and_then(|archive| archive.version(&package).map(|version| (archive, version)));
    let (archive, version) = match offered {
        Ok(found) => found,
        Err(error) if error.is::<Unavailable>() => {
            let prefix = newest_build(cache, major)?.ok_or(error)?;
            say(&format!(
                "Debian's archive cannot be reached; using the server built earlier in {}",
                prefix.display()
            ));
            return Ok(pg_config_in(&prefix));
        }
        Err(error) => return Err(error),
    };
    let prefix = cache.path(&format!("{}{version}", prefix_name(major)));
    if !prefix.join(STAMP).exists() {
        say(&format!(
            "Building PostgreSQL {version} with assertions, which find misuse of the backend; once, a few minutes."
        ));
        let tree = fetch(cache, &archive, &package, &version)?;
        build(cache, &tree, &prefix, major)?;
    }
    Ok(pg_config_in(&prefix))
}

/// The part of a build's name that all versions of a major version share.
fn prefix_name(major: u16) -> String {
    format!("postgres-{major}-assertions-")
}

/// The most recent complete build of a major version.
fn newest_build(cache: &Cache, major: u16) -> Result<Option<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(cache.root())? {
        let path = entry?.path();
        let named = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(&prefix_name(major)));
        if let Ok(meta) = fs::metadata(path.join(STAMP))
            && named
        {
            found.push((meta.modified()?, path));
        }
    }
    Ok(found.into_iter().max().map(|(_, path)| path))
}

/// Downloads and unpacks the original source; returns the directory it is in.
fn fetch(cache: &Cache, archive: &Archive, package: &str, version: &str) -> Result<PathBuf> {
    let dir = cache.path("build").join(package);
    fresh_dir(&dir)?;
    archive.download(cache, &[package], &dir)?;
    let tarball = fs::read_dir(&dir)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.to_string_lossy().contains(".orig.tar"))
        .ok_or_else(|| {
            unavailable(format!(
                "the source package {package} {version} has no original tarball"
            ))
        })?;
    let tree = dir.join("tree");
    fresh_dir(&tree)?;
    let mut untar = command("tar");
    untar
        .arg("--extract")
        .arg("--file")
        .arg(&tarball)
        .args(["--strip-components=1", "--no-same-owner", "-C"])
        .arg(&tree);
    step("unpacking the source", &mut untar, &cache.log("unpack")?)?;
    Ok(tree)
}

/// Configures, builds and installs; the stamp is written last, so an interrupted build is begun again.
fn build(cache: &Cache, tree: &Path, prefix: &Path, major: u16) -> Result<()> {
    remove_dir(prefix)?;
    let jobs = available_parallelism().map_or(2, usize::from);
    let mut configure = command("./configure");
    configure
        .current_dir(tree)
        .arg(format!("--prefix={}", prefix.display()))
        .args(CONFIGURE);
    // Optimised, because the tests copy gigabytes; frame pointers keep backtraces readable all the same.
    configure.arg("CFLAGS=-O2 -g1 -fno-omit-frame-pointer");
    step(
        "configuring",
        &mut configure,
        &cache.log(&format!("postgres-{major}-configure"))?,
    )?;
    for (what, target) in [
        ("compiling the server and contrib", "world-bin"),
        ("installing", "install-world-bin"),
    ] {
        let mut make = command("make");
        make.current_dir(tree).args(["-s", &format!("-j{jobs}"), target]);
        // Without this a make that called us would pass its own options on.
        make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
        step(
            what,
            &mut make,
            &cache.log(&format!("postgres-{major}-{target}"))?,
        )?;
    }
    fs::write(prefix.join(STAMP), "").with_context(|| format!("cannot write into {}", prefix.display()))?;
    // The tree is half a gigabyte that nobody needs once the server is installed.
    tree.parent().map_or(Ok(()), remove_dir)
}
