//! The server's own state: version, recovery, read-only transactions, the current database.

use crate::compat;
use crate::error::{Error, Result};
use pgrx::pg_sys;
use std::ffi::CStr;

/// Bytes of the longest name (NAMEDATALEN - 1).
pub(crate) const NAME_BYTES: usize = pg_sys::NAMEDATALEN as usize - 1;

/// Refuses to load into a server that this build is not for.
///
/// Blocks and segments must have the sizes of the headers: core compares versions, but not these.
/// The server must know invalid databases, and must not be older than the headers of the build: newer minors export
/// functions, and lay out structures, that older ones do not have.
pub(crate) fn check_version() -> Result<()> {
    for (setting, built) in [
        (c"block_size", pg_sys::BLCKSZ),
        (c"wal_block_size", pg_sys::XLOG_BLCKSZ),
        (c"segment_size", pg_sys::RELSEG_SIZE),
    ] {
        if number_setting(setting) != built as i32 {
            return Err(Error::OtherLayout {
                setting: setting.to_str().unwrap_or_default(),
            });
        }
    }
    let server = number_setting(c"server_version_num");
    let needed = compat::OLDEST_SERVER.max(pg_sys::PG_VERSION_NUM as i32);
    if server < needed {
        return Err(Error::ServerTooOld { server, needed });
    }
    Ok(())
}

/// A preset setting that every server has, in its own unit.
fn number_setting(name: &CStr) -> i32 {
    // SAFETY: the setting exists in every server and cannot change; the string lives in static memory.
    let text = unsafe {
        let value = pg_sys::GetConfigOption(name.as_ptr(), false, false);
        CStr::from_ptr(value)
    };
    text.to_str().ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Raises 25006 in recovery and in a read-only transaction.
pub(crate) fn check_may_write(command: &CStr) {
    // SAFETY: both only look and raise.
    unsafe {
        pg_sys::PreventCommandIfReadOnly(command.as_ptr());
        pg_sys::PreventCommandDuringRecovery(command.as_ptr());
    }
}

/// Now, in microseconds since 2000-01-01 (timestamptz).
pub(crate) fn now() -> i64 {
    // SAFETY: reads the clock.
    unsafe { pg_sys::GetCurrentTimestamp() }
}
