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
use crate::storage::database;
use crate::storage::guard::{CancelsHeldOff, catch};
use crate::storage::lock::{self, LockMode};
use crate::storage::xact::{self, Procedure, with_snapshot};
use crate::storage::{buffers, directory, exit, proc, sync, wal};
use pgrx::pg_sys::Oid;
use std::time::{Duration, Instant};

/// How long others may be at the clone's object or row (a COMMENT takes the one, an ALTER DATABASE the other) before
/// the unfinished clone is left.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL_MS: i64 = 10;

/// What became of an unfinished clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removal {
    /// It is gone: removed here, or dropped by somebody else, or published before the failure.
    Done,
    /// Another session is in the way.
    Busy,
}

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
        let removal = remove_patiently(clone)?;
        procedure.commit_synchronously();
        Ok(removal)
    });
    match result {
        Ok(Removal::Done) => exit::disarm(clone),
        // The end of the session tries again.
        Ok(Removal::Busy) => warn_of_leftovers(clone, "another session is using it"),
        Err(failure) => {
            procedure.rollback();
            warn_of_leftovers(clone, &failure.message());
        }
    }
}

/// Cleans up when the session ends by FATAL. Waits for nobody: interrupts are held off here.
pub(crate) fn after_fatal(clone: Oid) {
    xact::in_own_transaction(|| {
        xact::commit_locally();
        if lock::try_lock_catalogs_of_databases() {
            // An error of the backend ends the process at once; one of ours aborts the transaction. Both leave the
            // row, as a crash does.
            with_snapshot(|| try_remove(clone))?;
        }
        Ok(())
    });
}

/// Removes the clone as soon as nobody is in the way, or gives up after a while.
fn remove_patiently(clone: Oid) -> Result<Removal> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let removal = with_snapshot(|| {
            let removal = try_remove(clone)?;
            if removal == Removal::Done {
                log::forget(clone);
                fault::point("cleanup.before_commit")?;
            }
            Ok(removal)
        })?;
        if removal == Removal::Done || Instant::now() >= deadline {
            return Ok(removal);
        }
        proc::sleep_ms(POLL_MS);
        pgrx::check_for_interrupts!();
    }
}

/// Removes the clone if it is still unfinished and nobody is in the way: the steps of DROP DATABASE, in an order that
/// a crash at any point leaves a row (the deletion is committed last) and no page without a file.
///
/// No barrier and no checkpoint: no page of the clone ever entered shared buffers, so no process has its files open
/// through the storage manager but the checkpointer, whose requests are cancelled.
fn try_remove(clone: Oid) -> Result<Removal> {
    if !database::is_unfinished(clone) {
        return Ok(Removal::Done);
    }
    if !lock::try_lock_database(clone, LockMode::AccessExclusive) {
        return Ok(Removal::Busy);
    }
    fault::point("cleanup.start")?;
    // Read again, under the lock.
    if !database::is_unfinished(clone) {
        return Ok(Removal::Done);
    }
    if !database::delete_row(clone) {
        return Ok(Removal::Busy);
    }
    remove_files(clone)?;
    Ok(Removal::Done)
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

fn warn_of_leftovers(clone: Oid, cause: &str) {
    let name = database::name_of(clone).unwrap_or_else(|| clone.to_u32().to_string());
    error::warn_of_leftovers(&name, cause);
}
