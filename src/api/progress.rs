//! The function behind the view `blockwise.progress`.
#![deny(unsafe_code)]

use crate::progress::Phase;
use crate::storage::activity::{self, ProgressField};
use crate::storage::role;
use pgrx::pg_sys::Oid;
use pgrx::prelude::*;

/// Every clone under way that the caller may see: one's own, and all for pg_monitor.
#[pg_extern(volatile, parallel_restricted)]
#[allow(clippy::type_complexity, reason = "the columns of a row")]
fn progress_entries() -> TableIterator<
    'static,
    (
        name!(pid, i32),
        name!(source, Oid),
        name!(target, Option<Oid>),
        name!(phase, &'static str),
        name!(relations_done, i64),
        name!(relations_total, i64),
        name!(bytes_done, i64),
        name!(bytes_total, i64),
        name!(started, TimestampWithTimeZone),
    ),
> {
    let entries = activity::progress_entries()
        .into_iter()
        .filter(|entry| role::sees_activity_of(entry.role));
    TableIterator::new(entries.filter_map(|entry| {
        let get = |field| entry.get(field);
        let target = u32::try_from(get(ProgressField::Target))
            .ok()
            .filter(|oid| *oid != 0);
        Some((
            entry.pid,
            entry.source,
            target.map(Oid::from),
            Phase::from_number(get(ProgressField::Phase))?.name(),
            get(ProgressField::RelationsDone),
            get(ProgressField::RelationsTotal),
            get(ProgressField::BytesDone),
            get(ProgressField::BytesTotal),
            TimestampWithTimeZone::try_from(get(ProgressField::Started)).ok()?,
        ))
    }))
}
