//! PostgreSQL 16.

use pgrx::pg_sys;
use std::ffi::c_char;

pub(crate) use super::from16::*;

/// The major version this build is for.
pub(crate) const MAJOR: i32 = 16;
/// The oldest minor that this major is supported from, as `server_version_num`.
pub(crate) const OLDEST_SERVER: i32 = 160000;
/// The attribute that holds the ICU locale of a database.
pub(crate) const ANUM_DATABASE_LOCALE: u32 = pg_sys::Anum_pg_database_daticulocale;

/// Whether a page has a sane header and, with checksums on, the right checksum. Silent.
///
/// # Safety
/// `page` points to a whole, readable page.
pub(crate) unsafe fn page_is_verified(page: *mut u8, block: u32) -> bool {
    // SAFETY: the caller hands over a whole page; the function only reads it.
    unsafe { pg_sys::PageIsVerifiedExtended(page.cast::<c_char>(), block, 0) }
}

/// XLogRegisterBlock, with this version's page type.
///
/// # Safety
/// As XLogRegisterBlock: between XLogBeginInsert and XLogInsert, and `page` outlives the latter.
pub(crate) unsafe fn xlog_register_block(
    id: u8,
    locator: &mut RawLocator,
    fork: pg_sys::ForkNumber::Type,
    block: u32,
    page: *mut u8,
    flags: u8,
) {
    // SAFETY: passed on from the caller.
    unsafe { pg_sys::XLogRegisterBlock(id, locator, fork, block, page.cast::<c_char>(), flags) }
}

/// XLogRegisterData, with this version's argument types.
///
/// # Safety
/// As XLogRegisterData: after XLogBeginInsert, and `data` outlives XLogInsert.
pub(crate) unsafe fn xlog_register_data(data: &[u8]) {
    // SAFETY: passed on from the caller; the function does not write through the pointer.
    unsafe { pg_sys::XLogRegisterData(data.as_ptr().cast_mut().cast::<c_char>(), data.len() as u32) }
}
