//! Where a relation's files are: tablespace, database, file number, and the paths that follow from them.

use super::block::Fork;
use crate::compat::{self, RawLocator};
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;
use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The physical name of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RelationLocator {
    /// The tablespace, never 0.
    pub(crate) tablespace: Oid,
    /// The database.
    pub(crate) database: Oid,
    /// The file number (`pg_relation_filenode`).
    pub(crate) number: u32,
}

impl RelationLocator {
    /// The backend's own form.
    pub(crate) fn raw(self) -> RawLocator {
        compat::raw_locator(self.tablespace, self.database, self.number)
    }
}

/// The directory of a database in a tablespace, relative to the data directory, which is a backend's current
/// directory.
pub(crate) fn database_directory(database: Oid, tablespace: Oid) -> PathBuf {
    // SAFETY: GetDatabasePath formats a path into fresh memory and returns it NUL-terminated.
    let path = unsafe { pg_sys::GetDatabasePath(database, tablespace) };
    // SAFETY: see above; the string lives until the pfree below.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes().to_vec();
    // SAFETY: allocated by the call above and not used again.
    unsafe { pg_sys::pfree(path.cast()) };
    PathBuf::from(std::ffi::OsStr::from_bytes(&bytes))
}

/// The file of one segment of one fork.
pub(crate) fn segment_path(directory: &Path, number: u32, fork: Fork, segment: u32) -> PathBuf {
    let mut name = format!("{number}{}", fork.suffix());
    if segment > 0 {
        name.push_str(&format!(".{segment}"));
    }
    directory.join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_after_the_first_carry_their_number() {
        let directory = Path::new("base/5");
        assert_eq!(
            segment_path(directory, 16384, Fork::Main, 0),
            Path::new("base/5/16384")
        );
        assert_eq!(
            segment_path(directory, 16384, Fork::FreeSpaceMap, 0),
            Path::new("base/5/16384_fsm")
        );
        assert_eq!(
            segment_path(directory, 16384, Fork::VisibilityMap, 2),
            Path::new("base/5/16384_vm.2")
        );
    }
}
