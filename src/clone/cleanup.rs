//! Removing what a failed clone left: row, buffers, fsync requests, files.
//!
//! Always in a new transaction, by OID, and only if the row is still that of an unfinished clone: aborting releases
//! session locks too, so between the failure and the cleanup anybody may have dropped the clone, and a failure can
//! arrive when the clone is already published (a session that is terminated while it waits for a standby).
//!
//! | way out | who cleans up |
//! |---|---|
//! | ERROR, cancel, Rust panic | [`after_error`], then the error goes on |
//! | FATAL: terminate, shutdown, lost client | [`after_fatal`], a before_shmem_exit callback |
//! | failure of the claim's commit | nothing to do: there is no row and no file |
//! | failure of publish's commit | as ERROR: the row is still unfinished |
//! | crash, SIGKILL | nobody: the row stays, and DROP DATABASE removes it with its files |
#![deny(unsafe_code)]

use super::log;
use crate::error::{self, Error, Result};
use crate::fault;
use crate::progress::Progress;
use crate::storage::database::{self, IfBusy};
use crate::storage::guard::{CancelsHeldOff, Failure, catch};
use crate::storage::lock::{LockMode, try_lock_database};
use crate::storage::xact::{self, Procedure, with_snapshot};
use crate::storage::{buffers, directory, exit, proc, sync, wal};
use pgrx::pg_sys::Oid;
use std::time::{Duration, Instant};

/// How long somebody else may hold the clone's object (a COMMENT takes it for a moment) before the row is left.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
const LOCK_POLL_MS: i64 = 10;

/// Cleans up after an error, and ends with the session as it was before the CALL, in a new transaction.
///
/// What cannot be cleaned up stays as an unfinished clone, with a WARNING; the caller goes on with its own error.
pub(crate) fn after_error(procedure: &Procedure, clone: Oid, progress: Option<&mut Progress>) {
    let _no_cancels = CancelsHeldOff::new();
    procedure.rollback();
    if let Some(progress) = progress {
        progress.rearm_for_cleanup();
    }
    let result = catch(|| {
        if lock_patiently(clone) {
            with_snapshot(|| remove_unfinished(clone, IfBusy::Wait))?;
        }
        procedure.commit_synchronously();
        Ok(())
    });
    match result {
        Ok(()) => exit::disarm(),
        Err(failure) => {
            // The callback at exit would only fail again; DROP DATABASE is the way.
            exit::disarm();
            procedure.rollback();
            warn_of_leftovers(clone, &failure);
        }
    }
}

/// Cleans up when the session ends by FATAL. Waits for nobody: interrupts are held off here.
pub(crate) fn after_fatal(clone: Oid) {
    xact::in_own_transaction(|| {
        xact::commit_locally();
        if try_lock_database(clone, LockMode::AccessExclusive) {
            // An error here ends the process at once and leaves the row, as a crash does.
            let _ = with_snapshot(|| remove_unfinished(clone, IfBusy::Skip));
        }
    });
}

/// Takes the clone's object for ourselves. False if there is no unfinished clone any more.
fn lock_patiently(clone: Oid) -> bool {
    let deadline = Instant::now() + LOCK_PATIENCE;
    while !try_lock_database(clone, LockMode::AccessExclusive) {
        // Whoever holds it this long is dropping it.
        if !database::is_unfinished(clone) || Instant::now() >= deadline {
            return false;
        }
        proc::sleep_ms(LOCK_POLL_MS);
        pgrx::check_for_interrupts!();
    }
    true
}

/// Removes the clone if it is still unfinished: the steps of DROP DATABASE, in an order that a crash at any point
/// leaves a row (the deletion is committed last) and no page without a file.
///
/// No barrier and no checkpoint: no page of the clone ever entered shared buffers, so no process has its files open
/// through the storage manager but the checkpointer, whose requests are cancelled.
fn remove_unfinished(clone: Oid, if_busy: IfBusy) -> Result<()> {
    fault::point("cleanup.start")?;
    if !database::is_unfinished(clone) {
        return Ok(());
    }
    if !database::delete_row(clone, if_busy) {
        return Ok(());
    }
    if if_busy == IfBusy::Wait {
        log::forget(clone);
    }
    remove_files(clone)?;
    fault::point("cleanup.before_commit")
}

/// Removes the clone's files everywhere. The record comes first: a standby must remove them too, even if we crash
/// right after and the DROP DATABASE that follows finds no directory here any more.
fn remove_files(clone: Oid) -> Result<()> {
    buffers::drop_database(clone);
    sync::forget_database(clone);
    let directories = directory::directories_of(clone)?;
    if directories.is_empty() {
        return Ok(());
    }
    let tablespaces: Vec<Oid> = directories.iter().map(|(tablespace, _)| *tablespace).collect();
    wal::log_database_dropped(clone, &tablespaces);
    for (_, path) in &directories {
        if !directory::remove(path) {
            let cause = std::io::Error::from_raw_os_error(libc::ENOTEMPTY);
            return Err(Error::file("remove directory", path, cause));
        }
    }
    Ok(())
}

fn warn_of_leftovers(clone: Oid, failure: &Failure) {
    let name = database::name_of(clone).unwrap_or_else(|| clone.to_u32().to_string());
    error::warn_of_leftovers(&name, &failure.message());
}
