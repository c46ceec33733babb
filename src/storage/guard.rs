//! Catching what unwinds: the only place that does.
//!
//! An error of the backend, an error report of ours and a Rust panic all unwind the Rust stack. Catching one does
//! not roll anything back, so the caller must end the transaction before it does anything else, and rethrow.

use crate::error::{Error, Result};
use pgrx::pg_sys;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use std::panic::AssertUnwindSafe;

/// Why a piece of work did not come to its end.
pub(crate) enum Failure {
    /// It returned an error of our own catalogue.
    Own(Error),
    /// Something unwound through it.
    Caught(Box<CaughtError>),
}

impl Failure {
    /// Goes on with the error, as if it had not been caught.
    pub(crate) fn rethrow(self) -> ! {
        match self {
            Failure::Own(error) => error.raise(),
            Failure::Caught(cause) => cause.rethrow(),
        }
    }

    /// Whether a unique index refused a row.
    pub(crate) fn is_unique_violation(&self) -> bool {
        match self {
            Failure::Caught(cause) => matches!(
                cause.as_ref(),
                CaughtError::PostgresError(report)
                    if report.sql_error_code() == PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION
            ),
            Failure::Own(_) => false,
        }
    }

    /// The primary message, for a WARNING.
    pub(crate) fn message(&self) -> String {
        match self {
            Failure::Own(error) => format!("{error:?}"),
            Failure::Caught(cause) => match cause.as_ref() {
                CaughtError::PostgresError(report)
                | CaughtError::ErrorReport(report)
                | CaughtError::RustPanic { ereport: report, .. } => report.message().to_string(),
            },
        }
    }
}

/// Runs `work` and catches everything that comes out of it but a FATAL exit, which does not unwind.
pub(crate) fn catch<T>(work: impl FnOnce() -> Result<T>) -> std::result::Result<T, Failure> {
    PgTryBuilder::new(AssertUnwindSafe(|| work().map_err(Failure::Own)))
        .catch_others(|cause| Err(Failure::Caught(Box::new(cause))))
        .catch_rust_panic(|cause| Err(Failure::Caught(Box::new(cause))))
        .execute()
}

/// Holds query cancels off while it lives; a termination of the session is still served.
///
/// An ERROR resets the backend's counter to zero, so the guard counts down only what is still there.
#[must_use]
pub(crate) struct CancelsHeldOff(());

impl CancelsHeldOff {
    /// Starts holding cancels off.
    pub(crate) fn new() -> CancelsHeldOff {
        // SAFETY: a counter of this process's only thread.
        unsafe { pg_sys::QueryCancelHoldoffCount += 1 };
        CancelsHeldOff(())
    }
}

impl Drop for CancelsHeldOff {
    fn drop(&mut self) {
        // SAFETY: as in new(). Saturating, because an error in between has already set it to zero.
        unsafe { pg_sys::QueryCancelHoldoffCount = pg_sys::QueryCancelHoldoffCount.saturating_sub(1) };
    }
}
