//! Transactions: a procedure's right to commit, and the transactions it runs in.

use super::guard::catch;
use crate::error::{Error, Result};
use pgrx::pg_sys;
use std::ffi::c_int;

/// A procedure that may end and begin transactions. Made once per CALL.
///
/// If the CALL fails, the backend's own abort takes the SPI connection down; only success calls [`finish`].
///
/// [`finish`]: Procedure::finish
#[must_use]
pub(crate) struct Procedure(());

impl Procedure {
    /// Enters non-atomic execution, or refuses with 25001.
    ///
    /// The order matters: first the CALL's own `atomic` flag (a function or a transaction block above us), then
    /// PreventInTransactionBlock, because an earlier statement of the same pipeline does not show in the flag but
    /// would be committed with us. Both come before anything else, and before the first commit.
    pub(crate) fn enter(atomic: bool) -> Result<Procedure> {
        if atomic {
            return Err(Error::CannotCommit);
        }
        Procedure::insist_on_own_transaction();
        // SAFETY: inside a transaction; the option is the documented one for procedures.
        let code = unsafe { pg_sys::SPI_connect_ext(pg_sys::SPI_OPT_NONATOMIC as c_int) };
        debug_assert_eq!(code, pg_sys::SPI_OK_CONNECT as c_int);
        Ok(Procedure(()))
    }

    /// Refuses transaction blocks, subtransactions and pipelines, and makes the backend commit after the CALL even
    /// in a pipeline, as after CREATE DATABASE.
    fn insist_on_own_transaction() {
        // SAFETY: only looks at the transaction state; raises 25001 on refusal.
        unsafe { pg_sys::PreventInTransactionBlock(true, c"CALL blockwise.clone_database()".as_ptr()) };
    }

    /// Commits and begins the next transaction.
    pub(crate) fn commit(&self) {
        // SAFETY: connected with SPI_OPT_NONATOMIC; no snapshot of ours is active (see `with_snapshot`).
        unsafe { pg_sys::SPI_commit() };
        read_committed();
    }

    /// Commits durably, whatever synchronous_commit says, and begins the next transaction.
    pub(crate) fn commit_synchronously(&self) {
        // SAFETY: sets a flag of the current transaction.
        unsafe { pg_sys::ForceSyncCommit() };
        self.commit();
    }

    /// Ends a failed transaction and begins the next. All locks are gone afterwards, session locks too.
    ///
    /// SPI_rollback raises when it finds snapshots that no portal accounts for, and an error that unwound through
    /// [`with_snapshot`] leaves one. Its own handler has aborted the transaction and begun the next by then, so the
    /// error says nothing that matters and is dropped.
    pub(crate) fn rollback(&self) {
        let result = catch(|| {
            // SAFETY: as commit; this is the documented way to end a failed transaction without popping the SPI
            // frames of a caller in PL/pgSQL.
            unsafe { pg_sys::SPI_rollback() };
            Ok(())
        });
        drop(result);
        read_committed();
    }

    /// Leaves non-atomic execution.
    pub(crate) fn finish(self) {
        Procedure::insist_on_own_transaction();
        // SAFETY: the connection was made in enter().
        unsafe { pg_sys::SPI_finish() };
    }
}

/// Runs `work` with an active snapshot: catalog rows may have toasted columns.
///
/// The snapshot is popped on success; on an error the transaction's abort does it.
pub(crate) fn with_snapshot<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // SAFETY: inside a transaction.
    unsafe { pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot()) };
    let result = work();
    // SAFETY: pops what was pushed above: `work` leaves the stack as it found it. (An error of the backend does not
    // come here: it unwinds.)
    unsafe { pg_sys::PopActiveSnapshot() };
    result
}

/// Our transactions after the first write single rows that they have locked: a session's default of SERIALIZABLE
/// would only make two clones that end at the same time fail each other.
fn read_committed() {
    // SAFETY: a variable of this process, set before the transaction takes its first snapshot.
    unsafe { pg_sys::XactIsoLevel = pg_sys::XACT_READ_COMMITTED as c_int };
}

/// A transaction outside SPI, for the exit path. It commits only if `work` succeeds.
pub(crate) fn in_own_transaction(work: impl FnOnce() -> Result<()>) {
    // SAFETY: the caller is the exit path, after AbortOutOfAnyTransaction.
    unsafe { pg_sys::StartTransactionCommand() };
    let result = work();
    // SAFETY: ends the transaction begun above, by commit or abort.
    unsafe {
        match result {
            Ok(()) => pg_sys::CommitTransactionCommand(),
            Err(_) => pg_sys::AbortOutOfAnyTransaction(),
        }
    }
}

/// Makes the current transaction's commit durable on this server, but not wait for standbys.
pub(crate) fn commit_locally() {
    // SAFETY: plain settings of this process, which is about to exit.
    unsafe {
        pg_sys::synchronous_commit = pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_LOCAL_FLUSH as c_int;
        pg_sys::ForceSyncCommit();
    }
}

/// Lets go of the catalog snapshot, so that this backend holds vacuum back nowhere.
///
/// Any catalog access brings it back: call this after the last one before a long piece of work.
pub(crate) fn release_catalog_snapshot() {
    // SAFETY: drops a snapshot that the backend keeps for itself and takes again when needed.
    unsafe { pg_sys::InvalidateCatalogSnapshot() };
}

/// Whether this backend holds neither a transaction id nor a snapshot.
pub(crate) fn holds_nothing_back() -> bool {
    // SAFETY: our own entry of the proc array.
    unsafe {
        let proc = &*pg_sys::MyProc;
        proc.xmin == pg_sys::InvalidTransactionId && proc.xid == pg_sys::InvalidTransactionId
    }
}
