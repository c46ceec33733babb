//! The table `blockwise.clone_log`: which databases are clones, and whose.
//!
//! A row is written with the claim and completed with the publication, in the same transactions. A plain DROP DATABASE
//! leaves it; the next claim removes the rows of databases that are gone.
#![deny(unsafe_code)]

use super::Outcome;
use crate::storage::{role, spi};
use pgrx::pg_sys::Oid;

/// Whether the table is there: the extension can be dropped while a clone is made, which must not undo the clone.
fn exists() -> bool {
    spi::own_table_exists(c"clone_log")
}

/// Notes an unfinished clone, and forgets databases that are gone: their OIDs may come back.
pub(crate) fn begin(database: Oid, name: &str, source: Oid, source_name: &str) {
    if !exists() {
        return;
    }
    spi::execute(
        "DELETE FROM blockwise.clone_log l WHERE database OPERATOR(pg_catalog.=) $1 OR NOT EXISTS \
         (SELECT FROM pg_catalog.pg_database d WHERE d.oid OPERATOR(pg_catalog.=) l.database)",
        &[spi::oid(database)],
    );
    spi::execute(
        "INSERT INTO blockwise.clone_log (database, name, source, source_name, cloned_by, started) \
         VALUES ($1, $2, $3, $4, $5, pg_catalog.clock_timestamp())",
        &[
            spi::oid(database),
            name.into(),
            spi::oid(source),
            source_name.into(),
            spi::oid(role::current()),
        ],
    );
}

/// Notes that the clone is finished.
pub(crate) fn finish(outcome: &Outcome) {
    if !exists() {
        return;
    }
    spi::execute(
        "UPDATE blockwise.clone_log SET finished = pg_catalog.clock_timestamp(), strategy = $2, bytes = $3 \
         WHERE database OPERATOR(pg_catalog.=) $1 AND finished IS NULL",
        &[
            spi::oid(outcome.database),
            outcome.strategy.name().into(),
            (outcome.bytes as i64).into(),
        ],
    );
}

/// Notes nothing any more: the clone is gone.
pub(crate) fn forget(database: Oid) {
    if !exists() {
        return;
    }
    spi::execute(
        "DELETE FROM blockwise.clone_log WHERE database OPERATOR(pg_catalog.=) $1",
        &[spi::oid(database)],
    );
}

/// Whether the database is a clone of that name that this caller made from here, or any such clone if the caller is
/// a superuser.
pub(crate) fn is_clone_of_caller(database: Oid, name: &str) -> bool {
    let any = role::is_superuser();
    spi::query_bool(
        "SELECT EXISTS (SELECT FROM blockwise.clone_log WHERE database OPERATOR(pg_catalog.=) $1 \
         AND name OPERATOR(pg_catalog.=) $2 AND (cloned_by OPERATOR(pg_catalog.=) $3 OR $4))",
        &[
            spi::oid(database),
            name.into(),
            spi::oid(role::current()),
            any.into(),
        ],
    )
}
