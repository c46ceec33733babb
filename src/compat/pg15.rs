//! PostgreSQL 15.
#![allow(non_snake_case, reason = "functions keep the backend's names")]

use pgrx::pg_sys;
use pgrx::prelude::*;
use std::ffi::{c_char, c_int};

pub(crate) use super::until17::*;

/// The major version this build is for.
pub(crate) const MAJOR: i32 = 15;
/// The oldest minor that knows invalid databases (`datconnlimit = -2`), as `server_version_num`.
pub(crate) const OLDEST_SERVER: i32 = 150004;
/// The attribute that holds the ICU locale of a database.
pub(crate) const ANUM_DATABASE_LOCALE: u32 = pg_sys::Anum_pg_database_daticulocale;

/// Bytes of a relation map that is written in place: core creates the file inside the critical section that logs it,
/// and redo does so too, so its space must be there before.
pub(crate) const RELATION_MAP_IN_PLACE: Option<usize> = Some(512);

/// The backend's name for (tablespace, database, file number).
pub(crate) type RawLocator = pg_sys::RelFileNode;

/// Builds the backend's locator.
pub(crate) fn raw_locator(tablespace: pg_sys::Oid, database: pg_sys::Oid, number: u32) -> RawLocator {
    RawLocator {
        spcNode: tablespace,
        dbNode: database,
        relNode: pg_sys::Oid::from(number),
    }
}

/// Splits a buffer tag into locator, fork and block.
pub(crate) fn split_tag(tag: &pg_sys::BufferTag) -> (RawLocator, pg_sys::ForkNumber::Type, u32) {
    (tag.rnode, tag.forkNum, tag.blockNum)
}

/// The database of a buffer tag.
pub(crate) fn tag_database(tag: &pg_sys::BufferTag) -> pg_sys::Oid {
    tag.rnode.dbNode
}

/// The tag by which the checkpointer knows a segment file.
pub(crate) fn file_tag(locator: RawLocator, fork: pg_sys::ForkNumber::Type, segment: u32) -> pg_sys::FileTag {
    pg_sys::FileTag {
        handler: pg_sys::SyncRequestHandler::SYNC_HANDLER_MD as i16,
        forknum: fork as i16,
        rnode: locator,
        segno: segment,
    }
}

/// The status of the backend with this index (from 1) in the local snapshot, or NULL.
pub(crate) fn backend_status(index: c_int) -> *mut pg_sys::LocalPgBackendStatus {
    // SAFETY: the function checks the index itself.
    unsafe { pg_sys::pgstat_fetch_stat_local_beentry(index) }
}

/// Raises 42501 unless `member` may hand objects to `role`.
pub(crate) fn check_can_become(member: pg_sys::Oid, role: pg_sys::Oid) {
    // SAFETY: a catalog lookup; raises on refusal.
    unsafe { pg_sys::check_is_member_of_role(member, role) }
}

/// Whether `role` owns the database (or is a superuser).
pub(crate) fn owns_database(database: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::pg_database_ownercheck(database, role) }
}

/// Whether `role` may create in the tablespace.
pub(crate) fn may_create_in_tablespace(tablespace: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    let result =
        unsafe { pg_sys::pg_tablespace_aclcheck(tablespace, role, pg_sys::ACL_CREATE as pg_sys::AclMode) };
    result == pg_sys::AclResult::ACLCHECK_OK
}

#[pg_guard]
unsafe extern "C-unwind" {
    /// utils/relmapper.h [15].
    fn RelationMapOidToFilenodeForDatabase(dbpath: *mut c_char, relationId: pg_sys::Oid) -> pg_sys::Oid;
}

/// The file number of a mapped catalog of the database in `directory`, 0 if it is not mapped.
///
/// # Safety
/// `directory` is a NUL-terminated path.
pub(crate) unsafe fn mapped_file_number(directory: *mut c_char, relation: pg_sys::Oid) -> u32 {
    // SAFETY: passed on from the caller.
    unsafe { RelationMapOidToFilenodeForDatabase(directory, relation) }.to_u32()
}
