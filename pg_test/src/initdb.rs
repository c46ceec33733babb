//! Making a data folder. `initdb` takes a second or more, so its result is kept in the temporary folder, one for each
//! server build and set of options, and copied.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::UNIX_EPOCH;

use crate::process::{ServerUser, give_to_server_user, run};
use crate::{Error, Installation, Result};

static SERIAL: AtomicU32 = AtomicU32::new(0);

/// Fills `data` (which must not exist) as `initdb` with these options would.
pub(crate) fn make_data_folder(installation: &Installation, options: &[String], data: &Path) -> Result<()> {
    let kept = kept_folder(installation, options)?;
    if !kept.is_dir() {
        make_kept_folder(installation, options, &kept)?;
    }
    copy_folder(&kept, data)
}

/// Copies a data folder as it is, owned by the server's user.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    run(Command::new("cp")
        .args(["-a", "--reflink=auto"])
        .arg(from)
        .arg(to))?;
    if let Some(user) = ServerUser::needed()? {
        run(Command::new("chown")
            .arg("-R")
            .arg(format!("{}:{}", user.uid, user.gid))
            .arg(to))?;
    }
    Ok(())
}

fn kept_folder(installation: &Installation, options: &[String]) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    installation.version().hash(&mut hasher);
    installation.pg_config().hash(&mut hasher);
    let built = fs::metadata(installation.bindir().join("postgres"))?.modified()?;
    built
        .duration_since(UNIX_EPOCH)
        .map_or(0, |t| t.as_nanos())
        .hash(&mut hasher);
    options.hash(&mut hasher);
    let user = ServerUser::needed()?.map_or_else(|| "self".to_owned(), |user| user.uid.to_string());
    Ok(std::env::temp_dir().join(format!("blockwise-initdb-{user}-{:016x}", hasher.finish())))
}

/// Runs `initdb` in a folder of its own and renames it when it is whole: another process may do the same.
fn make_kept_folder(installation: &Installation, options: &[String], kept: &Path) -> Result<()> {
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let work = kept.with_extension(format!("{}-{serial}", std::process::id()));
    fs::create_dir(&work)?;
    give_to_server_user(&work)?;
    let made = work.join("data");
    let outcome = run(installation.command("initdb")?.args(options).arg("-D").arg(&made));
    let outcome = outcome.and_then(|_| match fs::rename(&made, kept) {
        Err(_) if kept.is_dir() => Ok(()),
        other => other.map_err(Error::from),
    });
    let _ = fs::remove_dir_all(&work);
    outcome
}
