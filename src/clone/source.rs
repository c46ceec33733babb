//! Getting hold of the source: looked up, allowed, locked, and left by everybody.
//!
//! A ShareLock on the database object keeps new connections out for as long as it is held, as with CREATE DATABASE;
//! it is held across the clone's transactions, until the clone is published.
#![deny(unsafe_code)]

use super::blockers::Blockers;
use super::checks;
use super::options::{OnBusy, Options};
use crate::error::{Error, Result};
use crate::storage::database::{self, Database};
use crate::storage::lock::{LockMode, SessionDatabaseLock};
use crate::storage::{proc, xact};
use pgrx::pg_sys::Oid;
use std::time::{Duration, Instant};

/// Between two looks at who is there.
const POLL_MS: i64 = 100;
/// The same for a refusal that should come at once.
const SHORT_POLL_MS: i64 = 10;
/// How long processes that are leaving may take, as in CREATE DATABASE.
const LEAVING_PATIENCE: Duration = Duration::from_secs(5);
/// How long a session is looked at before the clone is refused: the backend of a client that has just disconnected
/// needs a moment to notice, and scripts connect, disconnect and clone.
const SESSION_PATIENCE: Duration = Duration::from_millis(250);

/// A source that nobody uses and nobody can connect to.
#[derive(Debug)]
pub(crate) struct LockedSource {
    /// The database, as it was when the lock was there.
    pub(crate) database: Database,
    lock: SessionDatabaseLock,
}

impl LockedSource {
    /// Lets connections in again.
    pub(crate) fn release(self) {
        self.lock.release();
    }
}

/// Looks the source up by name and checks that the caller may copy it.
pub(crate) fn find(name: &str) -> Result<Database> {
    database::oid_by_name(name)
        .and_then(database::find)
        .ok_or_else(|| Error::UndefinedDatabase {
            name: name.to_string(),
        })
        .and_then(|found| checks::check_may_copy(&found).map(|()| found))
}

/// Locks the source as `on_busy` says. Every other check has passed once before; sessions may be ended here.
pub(crate) fn lock(options: &Options) -> Result<LockedSource> {
    let deadline = Instant::now() + options.timeout;
    loop {
        let found = find(&options.source)?;
        let lock = match options.on_busy {
            OnBusy::Error => lock_or_refuse(&found)?,
            OnBusy::Wait => wait_for(&found, options.timeout, deadline)?,
            OnBusy::Terminate => lock_and_terminate(&found, options.timeout, deadline)?,
        };
        // The name may have moved to another database while we waited for the lock.
        match database::find(found.oid) {
            Some(now) if now.name == options.source => {
                checks::check_may_copy(&now)?;
                return Ok(LockedSource { database: now, lock });
            }
            _ => lock.release(),
        }
        pgrx::check_for_interrupts!();
    }
}

fn busy(source: &Database, blockers: &Blockers, waited: Option<Duration>) -> Error {
    Error::SourceBusy {
        name: source.name.clone(),
        detail: blockers.detail(),
        waited_ms: waited.map(|waited| waited.as_millis() as u64),
    }
}

/// Waits a moment, serving interrupts.
fn pause(milliseconds: i64) {
    // Nothing may be held back while we wait for others.
    xact::release_catalog_snapshot();
    proc::sleep_ms(milliseconds);
    pgrx::check_for_interrupts!();
}

fn lock_or_refuse(source: &Database) -> Result<SessionDatabaseLock> {
    let lock = SessionDatabaseLock::acquire(source.oid, LockMode::Share);
    let blockers = after_leaving(source.oid);
    if blockers.is_empty() {
        Ok(lock)
    } else {
        Err(busy(source, &blockers, None))
    }
}

/// Who is left when those that leave by themselves have been given the time to.
fn after_leaving(source: Oid) -> Blockers {
    let started = Instant::now();
    loop {
        let blockers = Blockers::of(source);
        let patience = if blockers.is_only_leaving() {
            LEAVING_PATIENCE
        } else {
            SESSION_PATIENCE
        };
        if blockers.is_empty() || blockers.has_prepared() || started.elapsed() >= patience {
            return blockers;
        }
        blockers.send_autovacuum_away();
        pause(SHORT_POLL_MS);
    }
}

/// Waits until nobody is there, without keeping anybody out meanwhile: the lock is tried for a moment at each look.
fn wait_for(source: &Database, timeout: Duration, deadline: Instant) -> Result<SessionDatabaseLock> {
    loop {
        let lock = SessionDatabaseLock::try_acquire(source.oid, LockMode::Share);
        let mut blockers = Blockers::of(source.oid);
        if let Some(lock) = lock {
            // Autovacuum is only sent away when it alone is left, and no new worker can come.
            if blockers.is_only_leaving() {
                blockers = after_leaving(source.oid);
            }
            if blockers.is_empty() {
                return Ok(lock);
            }
            lock.release();
        }
        if Instant::now() >= deadline {
            return Err(busy(source, &blockers, Some(timeout)));
        }
        pause(POLL_MS);
    }
}

/// Keeps new sessions out, ends those that are there, and waits until they are gone.
fn lock_and_terminate(
    source: &Database,
    timeout: Duration,
    deadline: Instant,
) -> Result<SessionDatabaseLock> {
    let lock = SessionDatabaseLock::acquire(source.oid, LockMode::Share);
    let mut asked = false;
    loop {
        let blockers = Blockers::of(source.oid);
        if blockers.is_empty() {
            return Ok(lock);
        }
        if blockers.has_prepared() {
            return Err(busy(source, &blockers, None));
        }
        if Instant::now() >= deadline && (asked || blockers.is_only_leaving()) {
            return Err(busy(source, &blockers, Some(timeout)));
        }
        // The backend's routine would ask for the right to signal autovacuum workers, too: they go first.
        if blockers.has_autovacuum() {
            blockers.send_autovacuum_away();
        } else if !asked && !blockers.is_only_leaving() {
            proc::terminate_all_in(source.oid);
            asked = true;
        }
        pause(POLL_MS);
    }
}
