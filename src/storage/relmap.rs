//! The relation map: which file a mapped catalog has.

use super::directory::c_path;
use super::files::allocate_new;
use crate::compat;
use crate::error::Result;
use crate::ffi;
use pgrx::pg_sys::Oid;
use std::path::Path;

/// The file number of a mapped catalog of the database in `directory`; None if it is not mapped.
pub(crate) fn file_number(directory: &Path, relation: Oid) -> Option<u32> {
    let path = c_path(directory);
    // SAFETY: a NUL-terminated path that the function only reads, whatever its C type says.
    let number = unsafe { compat::mapped_file_number(path.as_ptr().cast_mut(), relation) };
    (number != 0).then_some(number)
}

/// Makes room for the map in a new database directory, before the directory is synced.
///
/// Where the backend writes the file in place, it creates it in the critical section that logs it: a disk that is
/// full at that moment would bring the server down, and redo would meet it again, so that it would not even start.
pub(crate) fn reserve(target: &Path) -> Result<()> {
    match compat::RELATION_MAP_IN_PLACE {
        Some(size) => allocate_new(&target.join("pg_filenode.map"), size),
        None => Ok(()),
    }
}

/// Copies the map from one database directory to another, logged and synced by the backend.
pub(crate) fn copy(source: &Path, target: &Path, database: Oid, tablespace: Oid) {
    let (source, target) = (c_path(source), c_path(target));
    // SAFETY: as above; `database` and `tablespace` name the target for the WAL record.
    unsafe {
        ffi::RelationMapCopy(
            database,
            tablespace,
            source.as_ptr().cast_mut(),
            target.as_ptr().cast_mut(),
        );
    }
}
