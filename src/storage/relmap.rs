//! The relation map: which file a mapped catalog has.

use super::directory::{c_path, sync_entries};
use super::files::write_new;
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

/// Copies the map from one database directory to another, logged and synced by the backend.
///
/// Where the backend writes the file in place, it is made first: a disk that is full at that moment would be met in
/// a critical section otherwise, and again by redo, so that the server would not even start.
pub(crate) fn copy(source: &Path, target: &Path, database: Oid, tablespace: Oid) -> Result<()> {
    if let Some(size) = compat::RELATION_MAP_IN_PLACE {
        write_new(&target.join("pg_filenode.map"), &vec![0; size])?;
        sync_entries(target)?;
    }
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
    Ok(())
}
