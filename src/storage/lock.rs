//! Heavyweight locks on database objects, and on pg_class of another database.

use pgrx::pg_sys;
use pgrx::pg_sys::Oid;
use std::ffi::c_int;

/// pg_shdescription (fixed OIDs of catalogs never change).
const SHARED_DESCRIPTION: Oid = Oid::from_u32(2396);
/// pg_shseclabel.
const SHARED_SECURITY_LABEL: Oid = Oid::from_u32(3592);
/// pg_db_role_setting.
const DATABASE_ROLE_SETTING: Oid = Oid::from_u32(2964);
/// pg_shdepend.
const SHARED_DEPENDENCY: Oid = Oid::from_u32(1214);

/// A lock mode, by PostgreSQL's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    /// Conflicts with AccessExclusive only.
    AccessShare,
    /// Keeps new connections to a database out.
    Share,
    /// Keeps everybody out.
    AccessExclusive,
}

impl LockMode {
    fn number(self) -> pg_sys::LOCKMODE {
        (match self {
            LockMode::AccessShare => pg_sys::AccessShareLock,
            LockMode::Share => pg_sys::ShareLock,
            LockMode::AccessExclusive => pg_sys::AccessExclusiveLock,
        }) as c_int
    }
}

fn database_tag(database: Oid) -> pg_sys::LOCKTAG {
    pg_sys::LOCKTAG {
        locktag_field1: 0,
        locktag_field2: pg_sys::DatabaseRelationId.to_u32(),
        locktag_field3: database.to_u32(),
        locktag_field4: 0,
        locktag_type: pg_sys::LockTagType::LOCKTAG_OBJECT as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
    }
}

/// A lock on a database object that outlives commits.
///
/// It has no destructor: an abort of the transaction releases session locks as well, and what an abort has
/// released must not be released again. On success [`release`](Self::release) gives it up.
#[must_use]
#[derive(Debug)]
pub(crate) struct SessionDatabaseLock {
    database: Oid,
    mode: LockMode,
}

impl SessionDatabaseLock {
    /// Waits for the lock; a cancel ends the wait.
    pub(crate) fn acquire(database: Oid, mode: LockMode) -> SessionDatabaseLock {
        // SAFETY: an ordinary lock request; it raises on cancel or deadlock.
        unsafe {
            pg_sys::LockSharedObjectForSession(pg_sys::DatabaseRelationId, database, 0, mode.number());
            // Unlike LockSharedObject, that does not read what happened while it waited.
            pg_sys::AcceptInvalidationMessages();
        }
        SessionDatabaseLock { database, mode }
    }

    /// Takes the lock if nobody is in the way.
    pub(crate) fn try_acquire(database: Oid, mode: LockMode) -> Option<SessionDatabaseLock> {
        let tag = database_tag(database);
        // SAFETY: as above, without waiting.
        let result = unsafe { pg_sys::LockAcquire(&tag, mode.number(), true, true) };
        if result == pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL {
            return None;
        }
        // SAFETY: what LockSharedObject does after it has a lock.
        unsafe { pg_sys::AcceptInvalidationMessages() };
        Some(SessionDatabaseLock { database, mode })
    }

    /// Gives the lock up.
    pub(crate) fn release(self) {
        // SAFETY: held since acquire(), no abort in between (which would have dropped the caller's state).
        unsafe {
            pg_sys::UnlockSharedObjectForSession(
                pg_sys::DatabaseRelationId,
                self.database,
                0,
                self.mode.number(),
            );
        }
    }
}

/// Takes a lock on a database object until the end of the transaction, if nobody is in the way.
pub(crate) fn try_lock_database(database: Oid, mode: LockMode) -> bool {
    let tag = database_tag(database);
    // SAFETY: an ordinary conditional lock request; invalidations are read as LockSharedObject does.
    unsafe {
        let result = pg_sys::LockAcquire(&tag, mode.number(), false, true);
        if result == pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL {
            return false;
        }
        pg_sys::AcceptInvalidationMessages();
    }
    true
}

/// Waits for a lock on a database object, until the end of the transaction.
pub(crate) fn lock_database(database: Oid, mode: LockMode) {
    // SAFETY: an ordinary lock request; it raises on cancel or deadlock.
    unsafe { pg_sys::LockSharedObject(pg_sys::DatabaseRelationId, database, 0, mode.number()) };
}

/// Takes the locks that removing a database's row will ask for, until the end of the transaction, if nobody is in
/// the way of any: for the exit path, which could not be interrupted while it waits.
pub(crate) fn try_lock_catalogs_of_databases() -> bool {
    [
        pg_sys::DatabaseRelationId,
        SHARED_DESCRIPTION,
        SHARED_SECURITY_LABEL,
        DATABASE_ROLE_SETTING,
        SHARED_DEPENDENCY,
    ]
    .into_iter()
    .all(|catalog| {
        let tag = pg_sys::LOCKTAG {
            locktag_field1: 0,
            locktag_field2: catalog.to_u32(),
            locktag_field3: 0,
            locktag_field4: 0,
            locktag_type: pg_sys::LockTagType::LOCKTAG_RELATION as u8,
            locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
        };
        // SAFETY: an ordinary conditional lock request on a shared catalog (database 0).
        let result = unsafe { pg_sys::LockAcquire(&tag, pg_sys::RowExclusiveLock as c_int, false, true) };
        result != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
    })
}

/// Waits for a lock on a relation of any database, until the end of the transaction or [`unlock_relation`].
pub(crate) fn lock_relation(database: Oid, relation: Oid, mode: LockMode) {
    let mut id = pg_sys::LockRelId {
        relId: relation,
        dbId: database,
    };
    // SAFETY: an ordinary lock request by database and relation.
    unsafe { pg_sys::LockRelationId(&mut id, mode.number()) };
}

/// Gives up a lock of [`lock_relation`].
pub(crate) fn unlock_relation(database: Oid, relation: Oid, mode: LockMode) {
    let mut id = pg_sys::LockRelId {
        relId: relation,
        dbId: database,
    };
    // SAFETY: held by the caller.
    unsafe { pg_sys::UnlockRelationId(&mut id, mode.number()) };
}

/// Takes and releases an advisory lock of the current database in share mode: where a fault point waits.
#[cfg(feature = "testing")]
pub(crate) fn pass_advisory_lock(key: i64) {
    let tag = pg_sys::LOCKTAG {
        // SAFETY: set at backend start.
        locktag_field1: unsafe { pg_sys::MyDatabaseId }.to_u32(),
        locktag_field2: (key >> 32) as u32,
        locktag_field3: key as u32,
        locktag_field4: 1,
        locktag_type: pg_sys::LockTagType::LOCKTAG_ADVISORY as u8,
        locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
    };
    // SAFETY: what pg_advisory_xact_lock_shared does.
    unsafe {
        pg_sys::LockAcquire(&tag, pg_sys::ShareLock as c_int, false, false);
        pg_sys::LockRelease(&tag, pg_sys::ShareLock as c_int, false);
    }
}
