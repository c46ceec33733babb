//! What is the same in PostgreSQL 16 and later.
#![allow(non_snake_case, reason = "functions keep the backend's names")]

use pgrx::pg_sys;
use pgrx::prelude::*;
use std::ffi::{c_char, c_int};

/// Relation maps are written to a file of their own, before the record, and renamed into place.
pub(crate) const RELATION_MAP_IN_PLACE: Option<usize> = None;

/// The backend's name for (tablespace, database, file number).
pub(crate) type RawLocator = pg_sys::RelFileLocator;

/// Builds the backend's locator.
pub(crate) fn raw_locator(tablespace: pg_sys::Oid, database: pg_sys::Oid, number: u32) -> RawLocator {
    RawLocator {
        spcOid: tablespace,
        dbOid: database,
        relNumber: pg_sys::Oid::from(number),
    }
}

/// Splits a buffer tag into locator, fork and block.
pub(crate) fn split_tag(tag: &pg_sys::BufferTag) -> (RawLocator, pg_sys::ForkNumber::Type, u32) {
    let locator = RawLocator {
        spcOid: tag.spcOid,
        dbOid: tag.dbOid,
        relNumber: tag.relNumber,
    };
    (locator, tag.forkNum, tag.blockNum)
}

/// The database of a buffer tag.
pub(crate) fn tag_database(tag: &pg_sys::BufferTag) -> pg_sys::Oid {
    tag.dbOid
}

/// The tag by which the checkpointer knows a segment file.
pub(crate) fn file_tag(locator: RawLocator, fork: pg_sys::ForkNumber::Type, segment: u32) -> pg_sys::FileTag {
    pg_sys::FileTag {
        handler: pg_sys::SyncRequestHandler::SYNC_HANDLER_MD as i16,
        forknum: fork as i16,
        rlocator: locator,
        segno: segment.into(),
    }
}

/// The status of the backend with this index (from 1) in the local snapshot, or NULL.
pub(crate) fn backend_status(index: c_int) -> *mut pg_sys::LocalPgBackendStatus {
    // SAFETY: the function checks the index itself.
    unsafe { pg_sys::pgstat_get_local_beentry_by_index(index) }
}

/// Raises 42501 unless `member` may hand objects to `role`.
pub(crate) fn check_can_become(member: pg_sys::Oid, role: pg_sys::Oid) {
    // SAFETY: a catalog lookup; raises on refusal.
    unsafe { pg_sys::check_can_set_role(member, role) }
}

/// Whether `role` owns the database (or is a superuser).
pub(crate) fn owns_database(database: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::object_ownercheck(pg_sys::DatabaseRelationId, database, role) }
}

/// Whether `role` may create in the tablespace.
pub(crate) fn may_create_in_tablespace(tablespace: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    let create = pg_sys::ACL_CREATE as pg_sys::AclMode;
    // SAFETY: a catalog lookup.
    let result = unsafe { pg_sys::object_aclcheck(pg_sys::TableSpaceRelationId, tablespace, role, create) };
    result == pg_sys::AclResult::ACLCHECK_OK
}

#[pg_guard]
unsafe extern "C-unwind" {
    /// utils/relmapper.h [16-18].
    fn RelationMapOidToFilenumberForDatabase(
        dbpath: *mut c_char,
        relationId: pg_sys::Oid,
    ) -> pg_sys::RelFileNumber;
}

/// The file number of a mapped catalog of the database in `directory`, 0 if it is not mapped.
///
/// # Safety
/// `directory` is a NUL-terminated path.
pub(crate) unsafe fn mapped_file_number(directory: *mut c_char, relation: pg_sys::Oid) -> u32 {
    // SAFETY: passed on from the caller.
    unsafe { RelationMapOidToFilenumberForDatabase(directory, relation) }.to_u32()
}
