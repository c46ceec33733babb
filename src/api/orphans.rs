//! `blockwise.orphaned_files()`.
#![deny(unsafe_code)]

use crate::error::Error;
use crate::orphans;
use crate::storage::role;
use pgrx::pg_sys::Oid;
use pgrx::prelude::*;

/// Directories and relation files that no catalog row owns, of every database. Reports only.
#[pg_extern(volatile, parallel_unsafe)]
#[allow(clippy::type_complexity, reason = "the columns of a row")]
fn orphaned_files() -> TableIterator<
    'static,
    (
        name!(tablespace, Oid),
        name!(database, Oid),
        name!(path, String),
        name!(bytes, i64),
        name!(modified, Option<TimestampWithTimeZone>),
    ),
> {
    if !role::is_superuser() {
        Error::MustBeSuperuser {
            function: "blockwise.orphaned_files",
        }
        .raise();
    }
    let orphans = orphans::find().unwrap_or_else(|error| error.raise());
    TableIterator::new(orphans.into_iter().map(|orphan| {
        (
            orphan.tablespace,
            orphan.database,
            orphan.path.to_string_lossy().into_owned(),
            orphan.bytes as i64,
            TimestampWithTimeZone::try_from(orphan.modified).ok(),
        )
    }))
}
