//! Fsync requests: what the checkpointer must sync before its redo point may pass our writes.

use super::block::Fork;
use super::locator::RelationLocator;
use crate::compat;
use crate::ffi;
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;

/// Asks the checkpointer to sync a segment file by its next checkpoint.
///
/// False if its queue is full: then the caller must sync the file itself.
#[must_use]
pub(crate) fn register(locator: RelationLocator, fork: Fork, segment: u32) -> bool {
    let tag = compat::file_tag(locator.raw(), fork.number(), segment);
    // SAFETY: hands over a tag by value; does not wait and does not raise with retryOnError = false.
    unsafe { pg_sys::RegisterSyncRequest(&tag, pg_sys::SyncRequestType::SYNC_REQUEST, false) }
}

/// Cancels every queued fsync and unlink of a database whose files are about to go.
///
/// Without it the next checkpoint would fail on the missing files, or unlink those of a later database with the
/// same OID.
pub(crate) fn forget_database(database: Oid) {
    // SAFETY: a message to the checkpointer, repeated by the backend until it is queued.
    unsafe { ffi::ForgetDatabaseSyncRequests(database) };
}

/// Whether the server syncs files at all (the setting `fsync`).
pub(crate) fn is_enabled() -> bool {
    // SAFETY: a setting of this process.
    unsafe { pg_sys::enableFsync }
}
