//! What must be undone when the session ends in the middle: FATAL does not unwind the stack.
//!
//! `pg_terminate_backend`, a lost client and an administrator's shutdown end the process by FATAL: no Rust
//! destructor and no catch block runs. PostgreSQL's answer is a before_shmem_exit callback. It is registered once
//! per session and looks at a list that says whether there is anything to do.

use pgrx::pg_sys;
use pgrx::pg_sys::{Datum, Oid};
use pgrx::prelude::*;
use std::cell::{Cell, RefCell};
use std::ffi::c_int;

/// What is called with the database that must be removed.
pub(crate) type ExitWork = fn(Oid);

thread_local! {
    static PENDING: RefCell<Vec<Oid>> = const { RefCell::new(Vec::new()) };
    static WORK: Cell<Option<ExitWork>> = const { Cell::new(None) };
}

/// From now on, if the session ends by FATAL, `work(database)` is called in a state without a transaction.
pub(crate) fn arm(database: Oid, work: ExitWork) {
    if WORK.replace(Some(work)).is_none() {
        // SAFETY: the callback is a plain function of this library, which is never unloaded.
        unsafe { pg_sys::before_shmem_exit(Some(at_exit), Datum::from(0)) };
    }
    PENDING.with_borrow_mut(|pending| pending.push(database));
}

/// There is nothing to undo any more.
pub(crate) fn disarm(database: Oid) {
    PENDING.with_borrow_mut(|pending| pending.retain(|other| *other != database));
}

/// The callback. It runs before the backend's own, so the interrupted transaction may still be open.
#[pg_guard]
unsafe extern "C-unwind" fn at_exit(_code: c_int, _arg: Datum) {
    let Some(work) = WORK.get() else { return };
    for database in PENDING.take() {
        // SAFETY: documented for use in exit paths; it ends whatever transaction is open and releases its locks.
        unsafe { pg_sys::AbortOutOfAnyTransaction() };
        work(database);
    }
}

/// Ends this session as FATAL does, for fault points.
#[cfg(feature = "testing")]
#[allow(
    unreachable_code,
    reason = "only some versions' headers say that proc_exit does not return"
)]
pub(crate) fn exit_fatally() -> ! {
    // SAFETY: what the end of an ereport(FATAL) does; it does not return.
    unsafe { pg_sys::proc_exit(1) };
    std::process::abort()
}

/// Sends this process a signal, for fault points.
#[cfg(feature = "testing")]
pub(crate) fn signal_self(signal: c_int) {
    // SAFETY: a signal to our own process.
    unsafe { libc::kill(libc::getpid(), signal) };
}
