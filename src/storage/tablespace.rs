//! Tablespaces by name, and the right to create in them.

use super::role::{c_name, current};
use crate::compat;
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;

/// The tablespace of this name; raises 42704 if there is none.
pub(crate) fn by_name(name: &str) -> Oid {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::get_tablespace_oid(c_name(name).as_ptr(), false) }
}

/// Whether the current role may create in it.
pub(crate) fn may_create_in(tablespace: Oid) -> bool {
    compat::may_create_in_tablespace(tablespace, current())
}

/// Whether it is pg_global, which holds the shared catalogs only.
pub(crate) fn is_global(tablespace: Oid) -> bool {
    tablespace == pg_sys::GLOBALTABLESPACE_OID
}
