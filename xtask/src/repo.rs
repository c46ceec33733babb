//! The repository: its root, its files, the directory that builds go to.

use crate::cache::Cache;
use anyhow::{Context, Result};
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository, taken from where cargo says that this crate lies at run time.
pub(crate) fn root() -> Result<PathBuf> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .context("CARGO_MANIFEST_DIR is not set: start this program as `cargo xtask`")?;
    let root = Path::new(&manifest)
        .parent()
        .context("the xtask crate has no parent directory")?;
    fs::canonicalize(root).with_context(|| format!("cannot resolve {}", root.display()))
}

/// Every file that belongs to the repository, tracked or about to be, as paths relative to its root.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output();
    let mut files = match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
            .split_terminator('\0')
            .map(PathBuf::from)
            .filter(|path| root.join(path).is_file())
            .collect(),
        // A source archive has no git directory; its files are then simply those that are there.
        _ => walk(root)?,
    };
    files.sort();
    files.dedup();
    Ok(files)
}

/// All files below `root` but build output and hidden directories.
fn walk(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
            let entry = entry?;
            let path = entry.path();
            let skipped = entry.file_name() == "target" || entry.file_name() == ".git";
            if entry.file_type()?.is_dir() {
                if !skipped {
                    open.push(path);
                }
            } else {
                found.push(path.strip_prefix(root)?.to_path_buf());
            }
        }
    }
    Ok(found)
}

/// Where cargo builds: as the caller says, else in the checkout, else, if the servers' user cannot read that,
/// in the cache.
pub(crate) fn target_dir(root: &Path, cache: &Cache) -> Result<PathBuf> {
    if let Some(explicit) = env::var_os("CARGO_TARGET_DIR") {
        return Ok(root.join(explicit));
    }
    if rustix::process::geteuid().is_root() && !readable_by_all(root) {
        return cache.dir("target");
    }
    Ok(root.join("target"))
}

/// Whether every directory from `/` down to `path` can be entered by everybody.
fn readable_by_all(path: &Path) -> bool {
    path.ancestors()
        .all(|dir| fs::metadata(dir).is_ok_and(|meta| meta.permissions().mode() & 0o005 == 0o005))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_directory_is_readable_and_a_missing_one_is_not() {
        assert!(readable_by_all(Path::new("/usr")));
        assert!(!readable_by_all(Path::new("/no/such/place")));
    }

    #[test]
    fn the_repository_lists_this_file() -> Result<()> {
        let files = files(&root()?)?;
        assert!(files.contains(&PathBuf::from("xtask/src/repo.rs")));
        Ok(())
    }
}
