//! Backend functions that pgrx does not bind, declared by hand under their C names.
//!
//! The module must be called `ffi` and sit at the crate root: `#[pg_guard]` on an extern block expands to a
//! path through it. Functions whose name or signature differs between versions are in `compat`.
#![allow(non_snake_case, reason = "functions keep the backend's names")]

use pgrx::pg_sys;
use pgrx::prelude::*;
use std::ffi::{c_char, c_int};

pub(crate) use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;

use crate::compat::RawLocator;

#[pg_guard]
unsafe extern "C-unwind" {
    /// utils/relmapper.h [15-18]: copies `pg_filenode.map` of one database to another, with its WAL record.
    pub(crate) fn RelationMapCopy(
        dbid: pg_sys::Oid,
        tsid: pg_sys::Oid,
        srcdbpath: *mut c_char,
        dstdbpath: *mut c_char,
    );
    /// catalog/storage.h [15-18]: writes XLOG_SMGR_CREATE.
    pub(crate) fn log_smgrcreate(rlocator: *const RawLocator, fork: pg_sys::ForkNumber::Type);
    /// storage/md.h [15-18]: cancels every queued fsync and unlink of a database.
    pub(crate) fn ForgetDatabaseSyncRequests(dbid: pg_sys::Oid);
    /// utils/pg_locale.h [15-18]: whether the operating system knows a locale.
    pub(crate) fn check_locale(category: c_int, locale: *const c_char, canonname: *mut *mut c_char) -> bool;
    /// utils/pg_locale.h [15-18]: the version of a collation as the library reports it now, or NULL.
    pub(crate) fn get_collation_actual_version(
        collprovider: c_char,
        collcollate: *const c_char,
    ) -> *mut c_char;
    /// catalog/pg_db_role_setting.h [15-18]: removes the settings of a database and/or a role.
    pub(crate) fn DropSetting(databaseid: pg_sys::Oid, roleid: pg_sys::Oid);
}
