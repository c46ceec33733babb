//! cargo-pgrx's own configuration, kept in our cache so that the user's is left alone.
//!
//! `cargo pgrx init` would build servers of its own; all it leaves behind that matters is a small file naming a
//! pg_config for each major version, which is written here instead.

use crate::cache::{Cache, make_readable_dir, write_if_changed};
use crate::exec::{capture, command};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Records `pg_config` as the server for its major version and returns the directory for PGRX_HOME.
///
/// Bindings are generated again whenever this file changes, so it is only written when it has to be; it does
/// name the server's full version, because new headers at the same path need new bindings.
pub(crate) fn register(cache: &Cache, home: &str, major: u16, pg_config: &Path) -> Result<PathBuf> {
    let home = cache.path(home);
    make_readable_dir(&home)?;
    let file = home.join("config.toml");
    let version = capture(command(pg_config).arg("--version"))?;
    let mut entries = parse(&fs::read_to_string(&file).unwrap_or_default());
    let path = pg_config.to_str().context("the path of pg_config is not UTF-8")?;
    entries.insert(format!("pg{major}"), (path.to_owned(), version.trim().to_owned()));
    write_if_changed(&file, &render(&entries))?;
    Ok(home)
}

/// Version feature, then path of pg_config and the version it reported.
type Entries = BTreeMap<String, (String, String)>;

/// Reads the lines that [`render`] writes.
fn parse(text: &str) -> Entries {
    let mut entries = Entries::new();
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(" = \"") else {
            continue;
        };
        let Some((path, version)) = rest.split_once('"') else {
            continue;
        };
        let version = version.trim().trim_start_matches('#').trim();
        entries.insert(name.to_owned(), (path.to_owned(), version.to_owned()));
    }
    entries
}

/// The file's text.
fn render(entries: &Entries) -> String {
    let mut text = String::from("[configs]\n");
    for (name, (path, version)) in entries {
        text.push_str(&format!("{name} = \"{path}\" # {version}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut entries = Entries::new();
        entries.insert(
            "pg15".into(),
            ("/usr/bin/pg_config".into(), "PostgreSQL 15.20 (Debian)".into()),
        );
        entries.insert("pg18".into(), ("/c/pg_config".into(), "PostgreSQL 18.6".into()));
        assert_eq!(parse(&render(&entries)), entries);
    }
}
