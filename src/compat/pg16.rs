//! PostgreSQL 16.

use pgrx::pg_sys;

pub(crate) use super::from16::*;
pub(crate) use super::until17::*;

/// The major version this build is for.
pub(crate) const MAJOR: i32 = 16;
/// The oldest minor that this major is supported from, as `server_version_num`.
pub(crate) const OLDEST_SERVER: i32 = 160000;
/// The attribute that holds the ICU locale of a database.
pub(crate) const ANUM_DATABASE_LOCALE: u32 = pg_sys::Anum_pg_database_daticulocale;
