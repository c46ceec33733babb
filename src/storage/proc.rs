//! The list of processes and prepared transactions: who is in a database, exactly and now.

use pgrx::pg_sys;
use pgrx::pg_sys::Oid;
use std::ffi::CStr;

/// A process that is connected to a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectedProcess {
    /// Its process id.
    pub(crate) pid: i32,
    /// Whether it is an autovacuum worker.
    pub(crate) is_autovacuum: bool,
}

/// A prepared transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PreparedTransaction {
    /// The name that COMMIT PREPARED takes.
    pub(crate) gid: String,
    /// The role that prepared it.
    pub(crate) owner: Oid,
    /// When, in microseconds since 2000-01-01.
    pub(crate) prepared_at: i64,
}

/// An LWLock of the main array, held until dropped.
///
/// After an error the backend has released every LWLock itself and reset the holdoff counter to zero; releasing
/// once more would fail an assertion.
struct IndividualLwLock(*mut pg_sys::LWLock);

impl IndividualLwLock {
    /// ProcArrayLock, shared (lwlocknames: number 4 in 15 to 18).
    fn proc_array() -> IndividualLwLock {
        // SAFETY: the fourth lock of the main array is ProcArrayLock in every supported version.
        unsafe {
            let lock = &raw mut (*pg_sys::MainLWLockArray.add(4)).lock;
            pg_sys::LWLockAcquire(lock, pg_sys::LWLockMode::LW_SHARED);
            IndividualLwLock(lock)
        }
    }
}

impl Drop for IndividualLwLock {
    fn drop(&mut self) {
        // SAFETY: held since proc_array(), unless an error has released it (see the type).
        unsafe {
            if pg_sys::InterruptHoldoffCount > 0 {
                pg_sys::LWLockRelease(self.0);
            }
        }
    }
}

/// Every process but this one that is connected to the database.
///
/// As CountOtherDBBackends looks for them, but once and with their ids. A process that has started to connect shows
/// here as soon as it can see the database; the caller's ShareLock on the database object keeps later ones out.
pub(crate) fn connected_to(database: Oid) -> Vec<ConnectedProcess> {
    let mut found = Vec::with_capacity(64);
    // SAFETY: the array of PGPROCs is fixed at server start; ProcArrayLock keeps entries from being emptied while
    // they are read, and is what BackendPidGetProcWithLock wants; nothing is raised in between.
    unsafe {
        let lock = IndividualLwLock::proc_array();
        let all = &*pg_sys::ProcGlobal;
        for index in 0..all.allProcCount as usize {
            let proc = all.allProcs.add(index);
            let (pid, in_database) = ((*proc).pid, (*proc).databaseId);
            if pid == 0 || in_database != database || proc == pg_sys::MyProc {
                continue;
            }
            // An entry that is free keeps what its last user wrote; the proc array itself is private to core.
            if pg_sys::BackendPidGetProcWithLock(pid) != proc {
                continue;
            }
            let is_autovacuum = u32::from((*proc).statusFlags) & pg_sys::PROC_IS_AUTOVACUUM != 0;
            found.push(ConnectedProcess { pid, is_autovacuum });
        }
        drop(lock);
    }
    found
}

/// The prepared transactions of a database.
///
/// Read after `connected_to` has found nobody, the list is complete: a process that prepares a transaction stays
/// connected until the transaction is listed.
pub(crate) fn prepared_in(database: Oid) -> Vec<PreparedTransaction> {
    // SAFETY: set-returning functions cannot be called plainly, so this goes through SPI, with built-in names only.
    let rows = pgrx::Spi::connect(|client| {
        let query = "SELECT p.gid, p.ownerid, p.prepared FROM pg_catalog.pg_prepared_xact() p \
                     WHERE p.dbid OPERATOR(pg_catalog.=) $1 ORDER BY p.prepared, p.gid";
        let table = client.select(query, None, &[database.into()])?;
        let mut rows = Vec::new();
        for row in table {
            rows.push(PreparedTransaction {
                gid: row.get::<String>(1)?.unwrap_or_default(),
                owner: row.get::<Oid>(2)?.unwrap_or(pg_sys::InvalidOid),
                prepared_at: row
                    .get::<pgrx::datum::TimestampWithTimeZone>(3)?
                    .map_or(0, pg_sys::TimestampTz::from),
            });
        }
        Ok::<_, pgrx::spi::Error>(rows)
    });
    rows.unwrap_or_else(|cause| unreachable!("query of the extension failed: {cause}"))
}

/// Asks a process to end (SIGTERM). A process that has ended meanwhile is none of our business.
pub(crate) fn terminate(pid: i32) {
    // SAFETY: sends a signal; the pid was read from the list of processes.
    unsafe { libc::kill(pid, libc::SIGTERM) };
}

/// Ends every session of a database, as DROP DATABASE … WITH (FORCE) does, with the same checks of rights.
///
/// Raises 55006 if prepared transactions exist and 42501 if the current role may not signal one of the sessions;
/// then nobody has been signalled.
pub(crate) fn terminate_all_in(database: Oid) {
    // SAFETY: the backend's own routine, with its own checks.
    unsafe { pg_sys::TerminateOtherDBBackends(database) };
}

/// Waits for a time, or until an interrupt arrives; interrupts are not served here.
pub(crate) fn sleep_ms(milliseconds: i64) {
    const EVENTS: u32 = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // SAFETY: the process's own latch; PG_WAIT_EXTENSION says that an extension waits.
    unsafe {
        pg_sys::WaitLatch(
            pg_sys::MyLatch,
            EVENTS as i32,
            milliseconds,
            pg_sys::PG_WAIT_EXTENSION,
        );
        pg_sys::ResetLatch(pg_sys::MyLatch);
    }
}

/// A point in time as the server writes it.
pub(crate) fn format_timestamp(at: i64) -> String {
    // SAFETY: returns a static NUL-terminated string, copied at once.
    unsafe { CStr::from_ptr(pg_sys::timestamptz_to_str(at)) }
        .to_string_lossy()
        .into_owned()
}
