//! Directories of databases: made durable before WAL promises them, removed with everything in them.

use super::files::write_new;
use super::locator::database_directory;
use super::sync;
use crate::compat;
use crate::error::{Error, Result};
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What GetDatabasePath knows under the OID of pg_default.
pub(crate) fn default_tablespace() -> Oid {
    Oid::from(pg_sys::DEFAULTTABLESPACE_OID.to_u32())
}

/// A path as the backend's C functions take it.
pub(crate) fn c_path(path: &Path) -> CString {
    // A path that GetDatabasePath or readdir returned has no NUL in it.
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}

/// Makes the directory, owned by the server's user and with the server's mode.
pub(crate) fn create(path: &Path) -> Result<()> {
    // SAFETY: mkdir with the mode that the data directory has.
    let code = unsafe { pg_sys::MakePGDirectory(c_path(path).as_ptr()) };
    if code < 0 {
        return Err(Error::file("create directory", path, io::Error::last_os_error()));
    }
    Ok(())
}

/// Writes the version file of a database and makes it durable.
pub(crate) fn write_version_file(directory: &Path) -> Result<()> {
    write_new(
        &directory.join("PG_VERSION"),
        format!("{}\n", compat::MAJOR).as_bytes(),
    )
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_entries(path: &Path) -> Result<()> {
    if !sync::is_enabled() {
        return Ok(());
    }
    let directory = File::open(path).map_err(|cause| Error::file("open directory", path, cause))?;
    match directory.sync_all() {
        // Some file systems do not sync directories; fsync_fname of fd.c ignores the same two.
        Err(cause) if matches!(cause.raw_os_error(), Some(libc::EBADF | libc::EINVAL)) => Ok(()),
        Err(cause) => Err(Error::file("fsync directory", path, cause)),
        Ok(()) => Ok(()),
    }
}

/// Makes the directory of a database in a tablespace that is not its default, as md.c does on first use.
///
/// The backend guards this against a DROP TABLESPACE at the same moment; it raises if the tablespace is gone.
pub(crate) fn create_in_tablespace(database: Oid, tablespace: Oid) {
    // SAFETY: an ordinary call outside recovery.
    unsafe { pg_sys::TablespaceCreateDbspace(tablespace, database, false) };
}

/// Whether something other than an empty directory is at the path.
pub(crate) fn is_nonempty(path: &Path) -> Result<bool> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(Error::file("open directory", path, cause)),
    }
}

/// Every tablespace that a database can have files in: pg_default and what is linked in `pg_tblspc`.
///
/// Read from the file system and not from pg_tablespace, because cleanup runs where a catalog scan is best avoided,
/// and because files count, not rows.
pub(crate) fn tablespaces() -> Result<Vec<Oid>> {
    let root = Path::new("pg_tblspc");
    let mut found = vec![default_tablespace()];
    let entries = fs::read_dir(root).map_err(|cause| Error::file("open directory", root, cause))?;
    for entry in entries {
        let entry = entry.map_err(|cause| Error::file("read directory", root, cause))?;
        if let Some(number) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        {
            found.push(Oid::from(number));
        }
    }
    Ok(found)
}

/// The tablespaces in which a database has a directory, with the directories.
pub(crate) fn directories_of(database: Oid) -> Result<Vec<(Oid, PathBuf)>> {
    let mut found = Vec::new();
    for tablespace in tablespaces()? {
        let path = database_directory(database, tablespace);
        match fs::symlink_metadata(&path) {
            Ok(_) => found.push((tablespace, path)),
            Err(cause) if cause.kind() == ErrorKind::NotFound => {}
            Err(cause) => return Err(Error::file("stat", &path, cause)),
        }
    }
    Ok(found)
}

/// Removes a directory and everything in it. False, with WARNINGs by the backend, if something is left.
#[must_use]
pub(crate) fn remove(path: &Path) -> bool {
    // SAFETY: an ordinary call; it reports problems as WARNING.
    unsafe { pg_sys::rmtree(c_path(path).as_ptr(), true) }
}

/// Bytes of the files directly in a directory; what vanishes while we look counts as nothing. `each` is called for
/// every file.
pub(crate) fn file_bytes(path: &Path, each: &mut dyn FnMut() -> Result<()>) -> Result<u64> {
    let Ok(entries) = fs::read_dir(path) else {
        return Ok(0);
    };
    let mut bytes = 0;
    for entry in entries.flatten() {
        each()?;
        bytes += entry.metadata().map_or(0, |metadata| metadata.len());
    }
    Ok(bytes)
}
