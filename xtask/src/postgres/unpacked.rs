//! A server's headers, unpacked from Debian's packages of another release without installing them.
//!
//! The unpacked pg_config cannot be used: it is linked against that release's newer libc, and it would print
//! paths below `/usr`. A script that prints the same answers for the unpacked tree takes its place.

use super::archive::{Archive, Kind, Unavailable};
use super::pg_config_in;
use crate::cache::{Cache, fresh_dir, make_readable_dir};
use crate::exec::{command, say, step};
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Makes the headers of a major version available and returns a pg_config for them.
pub(super) fn ensure(cache: &Cache, major: u16, suite: &'static str) -> Result<PathBuf> {
    let prefix = cache.path(&format!("postgres-{major}-headers"));
    let pg_config = pg_config_in(&prefix);
    let packages = [
        format!("postgresql-server-dev-{major}"),
        format!("postgresql-client-{major}"),
    ];
    let packages = packages.each_ref().map(String::as_str);
    let offered = Archive::open(cache, suite, Kind::Binary)
        .and_then(|archive| archive.version(packages[0]).map(|version| (archive, version)));
    let (archive, version) = match offered {
        Ok(found) => found,
        Err(error) if error.is::<Unavailable>() && pg_config.exists() => {
            say("Debian's archive cannot be reached; using the headers unpacked earlier.");
            return Ok(pg_config);
        }
        Err(error) => return Err(error),
    };
    // The script names the version it belongs to, and so serves as the stamp.
    if fs::read_to_string(&pg_config).is_ok_and(|text| text == script(&prefix, major, &version)) {
        return Ok(pg_config);
    }
    say(&format!(
        "Unpacking the headers of PostgreSQL {version}, to check that the extension compiles against it."
    ));
    fresh_dir(&prefix)?;
    archive.download(cache, &packages, &prefix)?;
    unpack(cache, &prefix)?;
    install_script(&pg_config, &script(&prefix, major, &version))?;
    Ok(pg_config)
}

/// Unpacks every package in `prefix` there.
fn unpack(cache: &Cache, prefix: &Path) -> Result<()> {
    let mut unpacked = 0;
    for entry in fs::read_dir(prefix)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            step(
                "unpacking",
                command("dpkg-deb").arg("-x").arg(&path).arg(prefix),
                &cache.log("unpack")?,
            )?;
            fs::remove_file(&path)?;
            unpacked += 1;
        }
    }
    if unpacked == 0 {
        bail!("the archive delivered no package into {}", prefix.display());
    }
    Ok(())
}

/// Writes the script where a pg_config would be.
fn install_script(path: &Path, text: &str) -> Result<()> {
    if let Some(dir) = path.parent() {
        make_readable_dir(dir)?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// A pg_config for the unpacked tree: the answers that cargo-pgrx and bindgen ask for.
fn script(prefix: &Path, major: u16, version: &str) -> String {
    let root = prefix.display();
    format!(
        r#"#!/bin/sh
# PostgreSQL {version}: headers only, unpacked from Debian's packages.
for option in "$@"; do
  case "$option" in
    --version) echo "PostgreSQL {version}" ;;
    --bindir) echo "{root}/usr/lib/postgresql/{major}/bin" ;;
    --includedir) echo "{root}/usr/include/postgresql" ;;
    --pkgincludedir) echo "{root}/usr/include/postgresql/{major}" ;;
    --includedir-server) echo "{root}/usr/include/postgresql/{major}/server" ;;
    --libdir) echo "{root}/usr/lib" ;;
    --pkglibdir) echo "{root}/usr/lib/postgresql/{major}/lib" ;;
    --sharedir) echo "{root}/usr/share/postgresql/{major}" ;;
    --pgxs) echo "{root}/usr/lib/postgresql/{major}/lib/pgxs/src/makefiles/pgxs.mk" ;;
    --cc) echo "gcc" ;;
    --cppflags) echo "-D_GNU_SOURCE -I/usr/include/libxml2" ;;
    --cflags | --cflags_sl | --ldflags | --libs | --configure) echo "" ;;
    *) echo "pg_config: headers only: no answer to $option" >&2; exit 1 ;;
  esac
done
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::capture;

    #[test]
    fn the_script_answers_for_the_unpacked_tree() -> Result<()> {
        let dir = std::env::temp_dir().join(format!("xtask-pg-config-{}", std::process::id()));
        let path = pg_config_in(&dir);
        install_script(&path, &script(&dir, 17, "17.12"))?;
        let headers = capture(command(&path).arg("--includedir-server"));
        let version = capture(command(&path).arg("--version"));
        let unknown = capture(command(&path).arg("--nonsense"));
        fs::remove_dir_all(&dir)?;
        assert_eq!(
            headers?.trim(),
            dir.join("usr/include/postgresql/17/server").display().to_string()
        );
        assert_eq!(version?.trim(), "PostgreSQL 17.12");
        assert!(unknown.is_err());
        Ok(())
    }
}
