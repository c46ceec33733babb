//! What is the same in PostgreSQL 15 to 17.

use super::RawLocator;
use pgrx::pg_sys;
use std::ffi::c_char;

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
    // The length is an int in 15 and a uint32 after it.
    // SAFETY: passed on from the caller; the function does not write through the pointer.
    unsafe { pg_sys::XLogRegisterData(data.as_ptr().cast_mut().cast::<c_char>(), data.len() as _) }
}
