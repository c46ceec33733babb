//! Shared buffers, as far as a clone needs them: the source's dirty pages are written out before its files are read.

use super::block::BLOCK_SIZE;
use super::locator::RelationLocator;
use crate::compat;
use crate::error::Result;
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bits of a buffer's state word (buf_internals.h, the same in 15 to 18).
const BM_DIRTY: u32 = 1 << 23;
const BM_VALID: u32 = 1 << 24;

/// Buffer headers between two checks for interrupts.
const HEADERS_PER_CHECK: i32 = 4096;

/// Writes out every dirty buffer of a database, in all its tablespaces. Returns how many were written.
///
/// As FlushDatabaseBuffers, which cannot be interrupted. `each` is called outside all locks, after each page and
/// every few thousand headers. Pages whose write by another process is under way are waited for.
///
/// Precondition for completeness: nobody dirties buffers of that database any more.
pub(crate) fn write_out_database(database: Oid, mut each: impl FnMut() -> Result<()>) -> Result<u64> {
    let mut written = 0;
    // SAFETY: a setting fixed at server start.
    let count = unsafe { pg_sys::NBuffers };
    for index in 0..count {
        if index % HEADERS_PER_CHECK == 0 {
            each()?;
        }
        let Some(tag) = dirty_tag(index, database) else {
            continue;
        };
        if write_out(index, &tag) {
            written += 1;
        }
        each()?;
    }
    Ok(written)
}

/// The tag of a buffer that looks dirty and belongs to the database.
///
/// Read without the header's lock: it may be torn or out of date, and `write_out` checks it again. Nothing is
/// missed, because a page of this database can only leave its buffer by being written.
fn dirty_tag(index: i32, database: Oid) -> Option<pg_sys::BufferTag> {
    // SAFETY: the array has NBuffers entries and lives as long as the server.
    let header = unsafe { &raw mut (*pg_sys::BufferDescriptors.add(index as usize)).bufferdesc };
    // SAFETY: the state word is an aligned u32 that every process accesses atomically.
    let state = unsafe { AtomicU32::from_ptr(&raw mut (*header).state.value) }.load(Ordering::Acquire);
    if state & (BM_DIRTY | BM_VALID) != BM_DIRTY | BM_VALID {
        return None;
    }
    // SAFETY: plain integers in shared memory; a torn value is caught by the second look.
    let tag = unsafe { (&raw const (*header).tag).read_volatile() };
    (compat::tag_database(&tag) == database).then_some(tag)
}

/// Pins the buffer if it still holds that page, and writes it. False if the page has moved on.
fn write_out(index: i32, tag: &pg_sys::BufferTag) -> bool {
    let (locator, fork, block) = compat::split_tag(tag);
    let buffer = index + 1;
    // SAFETY: ReadRecentBuffer compares the whole tag under the header lock before it pins; the content lock keeps
    // the page still while it is written; both are released below, or by the abort if the write raises.
    unsafe {
        if !pg_sys::ReadRecentBuffer(locator, fork, block, buffer) {
            return false;
        }
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
        pg_sys::FlushOneBuffer(buffer);
        pg_sys::UnlockReleaseBuffer(buffer);
    }
    true
}

/// Throws every buffer of a database away, dirty ones too: its files are about to be removed.
pub(crate) fn drop_database(database: Oid) {
    // SAFETY: the caller holds the database object in AccessExclusive mode; no pin of ours is left.
    unsafe { pg_sys::DropDatabaseBuffers(database) };
}

/// Reads pages of one relation of any database through shared buffers, each under its content lock, by a small ring
/// that leaves the working set alone.
///
/// The caller holds a lock on the relation: reading one that is not locked can leave stale buffers behind.
pub(crate) struct PageReader {
    locator: RelationLocator,
    strategy: pg_sys::BufferAccessStrategy,
}

impl PageReader {
    /// A reader of the main fork.
    pub(crate) fn new(locator: RelationLocator) -> PageReader {
        // SAFETY: allocates the ring in the current memory context.
        let strategy = unsafe { pg_sys::GetAccessStrategy(pg_sys::BufferAccessStrategyType::BAS_BULKREAD) };
        PageReader { locator, strategy }
    }

    /// Copies one page.
    pub(crate) fn read(&self, block: u32, page: &mut [u8]) {
        assert_eq!(page.len(), BLOCK_SIZE);
        // SAFETY: the pin and the content lock are released before return, or by the abort if the read raises; the
        // relation is a permanent one, as the last argument says, so that later changes to the buffer are
        // checkpointed.
        unsafe {
            let buffer = pg_sys::ReadBufferWithoutRelcache(
                self.locator.raw(),
                pg_sys::ForkNumber::MAIN_FORKNUM,
                block,
                pg_sys::ReadBufferMode::RBM_NORMAL,
                self.strategy,
                true,
            );
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            let source = pg_sys::BufferGetPage(buffer).cast::<u8>();
            std::ptr::copy_nonoverlapping(source, page.as_mut_ptr(), BLOCK_SIZE);
            pg_sys::UnlockReleaseBuffer(buffer);
        }
    }
}
