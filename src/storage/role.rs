//! Roles and what they may do.

use crate::compat;
use pgrx::pg_sys;
use pgrx::pg_sys::{Datum, Oid};
use std::ffi::{CStr, CString};

/// The role whose rights count now (GetUserId).
pub(crate) fn current() -> Oid {
    // SAFETY: a variable of this process.
    unsafe { pg_sys::GetUserId() }
}

/// Whether the current role is a superuser.
pub(crate) fn is_superuser() -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::superuser() }
}

/// Whether the current role may create databases.
///
/// Done here because the backend's own test is exported only from some minor versions on.
pub(crate) fn may_create_databases() -> bool {
    if is_superuser() {
        return true;
    }
    // SAFETY: a syscache lookup; the tuple is released below and read only before.
    unsafe {
        let tuple =
            pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::AUTHOID as i32, Datum::from(current()));
        if tuple.is_null() {
            return false;
        }
        let role = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_authid>();
        let may = (*role).rolcreatedb;
        pg_sys::ReleaseSysCache(tuple);
        may
    }
}

/// The role of this name; raises 42704 if there is none.
pub(crate) fn by_name(name: &CStr) -> Oid {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::get_role_oid(name.as_ptr(), false) }
}

/// The name of a role, for messages.
pub(crate) fn name_of(role: Oid) -> Option<String> {
    // SAFETY: a catalog lookup; with noerr it returns NULL for a role that is gone.
    unsafe {
        let name = pg_sys::GetUserNameFromId(role, true);
        (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

/// Raises 42501 unless the current role may give objects to `owner`.
pub(crate) fn check_may_give_to(owner: Oid) {
    compat::check_can_become(current(), owner);
}

/// Whether the current role owns the database, or is a superuser.
pub(crate) fn owns_database(database: Oid) -> bool {
    compat::owns_database(database, current())
}

/// Whether the current role sees another role's activity, as pg_stat_activity decides it.
pub(crate) fn sees_activity_of(role: Oid) -> bool {
    // SAFETY: catalog lookups.
    unsafe {
        pg_sys::has_privs_of_role(current(), pg_sys::ROLE_PG_READ_ALL_STATS.into())
            || pg_sys::has_privs_of_role(current(), role)
    }
}

/// The superuser's identity while this lives: for the extension's own tables, in the caller's transaction.
///
/// Restricted operation: nothing that runs meanwhile may change the session's settings or make temporary objects.
#[must_use]
pub(crate) struct AsSuperuser {
    role: Oid,
    context: i32,
}

impl AsSuperuser {
    /// Switches.
    pub(crate) fn new() -> AsSuperuser {
        let mut before = AsSuperuser {
            role: pg_sys::InvalidOid,
            context: 0,
        };
        // SAFETY: reads and sets two variables of this process; an abort in between resets them as well.
        unsafe {
            pg_sys::GetUserIdAndSecContext(&mut before.role, &mut before.context);
            let restricted = pg_sys::SECURITY_LOCAL_USERID_CHANGE | pg_sys::SECURITY_RESTRICTED_OPERATION;
            pg_sys::SetUserIdAndSecContext(
                Oid::from(pg_sys::BOOTSTRAP_SUPERUSERID),
                before.context | restricted as i32,
            );
        }
        before
    }
}

impl Drop for AsSuperuser {
    fn drop(&mut self) {
        // SAFETY: puts back what new() found.
        unsafe { pg_sys::SetUserIdAndSecContext(self.role, self.context) };
    }
}

/// A name as the backend's C functions take it; names come from text values, which have no NUL.
pub(crate) fn c_name(name: &str) -> CString {
    CString::new(name).unwrap_or_default()
}
