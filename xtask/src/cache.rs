//! Where things live that are made once and used again: servers, logs, package lists.
//!
//! The cache lies outside the repository, so that a clean checkout stays clean and finds what an earlier one
//! built. Servers started by root run as another user, therefore everything in it can be read by everybody.

use crate::exec::say;
use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use std::env;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The root of the cache.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Finds the cache's place and creates it.
    pub(crate) fn open() -> Result<Self> {
        let root = location(rustix::process::geteuid().is_root(), |name| {
            env::var_os(name).map(PathBuf::from)
        })?;
        let cache = Self { root };
        make_readable_dir(&cache.root)?;
        Ok(cache)
    }

    /// The directory that holds everything.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The path of `name` in the cache, whether it exists or not.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The directory `name` in the cache, created if need be.
    pub(crate) fn dir(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        make_readable_dir(&path)?;
        Ok(path)
    }

    /// Waits until no other xtask holds the lock called `name`, and holds it until the result is dropped.
    pub(crate) fn lock(&self, name: &str) -> Result<File> {
        let path = self.path(&format!("{name}.lock"));
        let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            say(&format!(
                "Another cargo xtask is at work ({name}); waiting for it."
            ));
            flock(&file, FlockOperation::LockExclusive)
                .with_context(|| format!("cannot lock {}", path.display()))?;
        }
        Ok(file)
    }

    /// The file that holds the full output of the step called `name`.
    pub(crate) fn log(&self, name: &str) -> Result<PathBuf> {
        Ok(self.dir("log")?.join(format!("{name}.log")))
    }
}

/// The rule for the cache's place, apart from the environment so that it can be tested.
fn location(is_root: bool, variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf> {
    if let Some(path) = variable("BLOCKWISE_CACHE") {
        if !path.is_absolute() {
            bail!("BLOCKWISE_CACHE must be an absolute path, not {}", path.display());
        }
        return Ok(path);
    }
    if is_root {
        return Ok(PathBuf::from("/var/cache/blockwise"));
    }
    if let Some(path) = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute()) {
        return Ok(path.join("blockwise"));
    }
    let home = variable("HOME").context("neither BLOCKWISE_CACHE, XDG_CACHE_HOME nor HOME is set")?;
    Ok(home.join(".cache/blockwise"))
}

/// Creates a directory that everybody may read; a strict umask would otherwise lock the server's user out.
pub(crate) fn make_readable_dir(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_readable_dir(parent)?;
    }
    fs::create_dir(path).with_context(|| format!("cannot create {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot set the mode of {}", path.display()))
}

/// Empties and re-creates a directory.
pub(crate) fn fresh_dir(path: &Path) -> Result<()> {
    remove_dir(path)?;
    make_readable_dir(path)
}

/// Removes a directory with everything in it; one that is not there is no error.
pub(crate) fn remove_dir(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot remove {}", path.display())),
    }
}

/// Writes a file only if its content changes, so that build tools which watch it see no needless change.
pub(crate) fn write_if_changed(path: &Path, content: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
        .with_context(|| format!("cannot set the mode of {}", path.display()))
}

/// Whether `path` exists and was written less than `age` ago.
pub(crate) fn younger_than(path: &Path, age: Duration) -> bool {
    let written = fs::metadata(path).and_then(|meta| meta.modified());
    written.is_ok_and(|time| {
        SystemTime::now()
            .duration_since(time)
            .is_ok_and(|since| since < age)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(is_root: bool, set: &[(&str, &str)]) -> Result<PathBuf> {
        location(is_root, |name| {
            set.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| PathBuf::from(value))
        })
    }

    #[test]
    fn the_override_wins_over_everything() -> Result<()> {
        assert_eq!(
            place(true, &[("BLOCKWISE_CACHE", "/x"), ("HOME", "/h")])?,
            PathBuf::from("/x")
        );
        Ok(())
    }

    #[test]
    fn a_relative_override_is_refused() {
        assert!(place(false, &[("BLOCKWISE_CACHE", "x")]).is_err());
    }

    #[test]
    fn root_uses_the_system_cache_and_others_their_own() -> Result<()> {
        assert_eq!(
            place(true, &[("HOME", "/h")])?,
            PathBuf::from("/var/cache/blockwise")
        );
        assert_eq!(
            place(false, &[("HOME", "/h")])?,
            PathBuf::from("/h/.cache/blockwise")
        );
        assert_eq!(
            place(false, &[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")])?,
            PathBuf::from("/c/blockwise")
        );
        Ok(())
    }

    #[test]
    fn without_any_home_there_is_an_error() {
        assert!(place(false, &[]).is_err());
    }
}
