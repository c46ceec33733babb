//! Writing ordinary core WAL records: page images, created files, created and dropped databases.
//!
//! Nothing of ours is needed to replay them: standbys, archives, WAL summaries and pg_waldump know them all.

use super::block::{BlockNumber, Fork};
use super::locator::RelationLocator;
use super::page::{self, PageBuffer};
use crate::compat;
use crate::ffi;
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;
use std::ffi::{CStr, c_int};
use std::ops::Range;

/// Page images in one record (XLR_MAX_BLOCK_ID).
pub(crate) const IMAGES_PER_RECORD: usize = pg_sys::XLR_MAX_BLOCK_ID as usize;

const RM_XLOG: pg_sys::RmgrId = 0;
const RM_DBASE: pg_sys::RmgrId = 4;
/// XLOG_FPI of catalog/pg_control.h.
const XLOG_FPI: u8 = 0xB0;
/// XLOG_DBASE_CREATE_WAL_LOG of commands/dbcommands_xlog.h.
const DBASE_CREATE_WAL_LOG: u8 = 0x10;
/// XLOG_DBASE_DROP of commands/dbcommands_xlog.h.
const DBASE_DROP: u8 = 0x20;

/// A position in WAL.
pub(crate) type Lsn = pg_sys::XLogRecPtr;

/// How page images are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    /// Not at all.
    Off,
    /// PostgreSQL's own method, in every build.
    Pglz,
    /// LZ4, where the server was built with it.
    Lz4,
    /// Zstandard, where the server was built with it.
    Zstd,
}

impl Compression {
    /// The value of `wal_compression`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Compression::Off => "off",
            Compression::Pglz => "pglz",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }

    fn setting(self) -> (&'static CStr, c_int) {
        match self {
            Compression::Off => (c"off", pg_sys::WalCompression::WAL_COMPRESSION_NONE as c_int),
            Compression::Pglz => (c"pglz", pg_sys::WalCompression::WAL_COMPRESSION_PGLZ as c_int),
            Compression::Lz4 => (c"lz4", pg_sys::WalCompression::WAL_COMPRESSION_LZ4 as c_int),
            Compression::Zstd => (c"zstd", pg_sys::WalCompression::WAL_COMPRESSION_ZSTD as c_int),
        }
    }

    /// Whether this server was built with the method.
    pub(crate) fn is_built_in(self) -> bool {
        // SAFETY: with changeVal = false the call only checks the value, and with a low level it does not raise.
        let verdict = unsafe {
            pg_sys::set_config_option(
                c"wal_compression".as_ptr(),
                self.setting().0.as_ptr(),
                pg_sys::GucContext::PGC_SUSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_SET,
                false,
                pg_sys::DEBUG5 as c_int,
                false,
            )
        };
        verdict != 0
    }
}

/// The session's `wal_compression`, replaced while this lives.
///
/// The variable behind the setting is changed, not the setting: no right on it is needed, and nothing of it is left
/// when the guard goes, by whatever way.
#[must_use]
pub(crate) struct CompressionGuard {
    before: c_int,
}

impl CompressionGuard {
    /// Compresses this backend's page images by `method` from now on.
    pub(crate) fn new(method: Compression) -> CompressionGuard {
        // SAFETY: a variable of this process's only thread, read by the assembly of WAL records in this thread.
        let before = unsafe { pg_sys::wal_compression };
        // SAFETY: as above; the value is one that is_built_in() accepted.
        unsafe { pg_sys::wal_compression = method.setting().1 };
        CompressionGuard { before }
    }
}

impl Drop for CompressionGuard {
    fn drop(&mut self) {
        // SAFETY: as in new().
        unsafe { pg_sys::wal_compression = self.before };
    }
}

/// Lets a record carry the images of [`IMAGES_PER_RECORD`] pages. Needed once before the first.
pub(crate) fn reserve_record_space() {
    // SAFETY: outside a critical section; the space stays reserved for the rest of the session.
    unsafe { pg_sys::XLogEnsureRecordSpace(IMAGES_PER_RECORD as c_int - 1, 0) };
}

/// Logs full images of the pages `range` of the buffer as blocks `first_block`…; at most [`IMAGES_PER_RECORD`].
///
/// The images go in as they are: redo sets the LSN of the page that it restores, and the file keeps the source's.
pub(crate) fn log_page_images(
    locator: RelationLocator,
    fork: Fork,
    first_block: BlockNumber,
    pages: &mut PageBuffer,
    range: Range<usize>,
) -> Lsn {
    assert!(range.len() <= IMAGES_PER_RECORD);
    let mut raw = locator.raw();
    // SAFETY: a record of XLOG_FPI with forced images of pages that outlive XLogInsert; space for the block
    // references was reserved by reserve_record_space(). If one of the calls raises, the abort resets the state.
    unsafe {
        pg_sys::XLogBeginInsert();
        for (id, index) in range.clone().enumerate() {
            let page = pages.page_mut(index);
            let standard = if page::has_standard_hole(fork, page) {
                pg_sys::REGBUF_STANDARD as u8
            } else {
                0
            };
            let flags = pg_sys::REGBUF_FORCE_IMAGE as u8 | standard;
            let block = first_block + id as u32;
            compat::xlog_register_block(id as u8, &mut raw, fork.number(), block, page.as_mut_ptr(), flags);
        }
        pg_sys::XLogInsert(RM_XLOG, XLOG_FPI)
    }
}

/// Logs that a fork's file was created (XLOG_SMGR_CREATE).
pub(crate) fn log_fork_created(locator: RelationLocator, fork: Fork) {
    let raw = locator.raw();
    // SAFETY: reads the locator and inserts one small record.
    unsafe { ffi::log_smgrcreate(&raw, fork.number()) };
}

/// Logs that a database's directory and version file were created (XLOG_DBASE_CREATE_WAL_LOG).
pub(crate) fn log_database_created(database: Oid, tablespace: Oid) -> Lsn {
    let mut record = Vec::with_capacity(8);
    record.extend_from_slice(&database.to_u32().to_ne_bytes());
    record.extend_from_slice(&tablespace.to_u32().to_ne_bytes());
    insert_record(&record, DBASE_CREATE_WAL_LOG)
}

/// Logs that a database's directories in these tablespaces go (XLOG_DBASE_DROP), and flushes the record.
pub(crate) fn log_database_dropped(database: Oid, tablespaces: &[Oid]) {
    let mut record = Vec::with_capacity(8 + 4 * tablespaces.len());
    record.extend_from_slice(&database.to_u32().to_ne_bytes());
    record.extend_from_slice(&(tablespaces.len() as i32).to_ne_bytes());
    for tablespace in tablespaces {
        record.extend_from_slice(&tablespace.to_u32().to_ne_bytes());
    }
    let end = insert_record(&record, DBASE_DROP | pg_sys::XLR_SPECIAL_REL_UPDATE as u8);
    flush(end);
}

fn insert_record(record: &[u8], info: u8) -> Lsn {
    // SAFETY: the data outlives XLogInsert, and its layout is the record's (dbcommands_xlog.h: OIDs and an int).
    unsafe {
        pg_sys::XLogBeginInsert();
        compat::xlog_register_data(record);
        pg_sys::XLogInsert(RM_DBASE, info)
    }
}

/// Waits until WAL is on disk up to `lsn`.
pub(crate) fn flush(lsn: Lsn) {
    // SAFETY: an LSN that an insertion of ours returned.
    unsafe { pg_sys::XLogFlush(lsn) };
}

/// Lets the WAL writer know that there is WAL to write, so that this backend does not have to do it itself when the
/// WAL buffers are full.
pub(crate) fn wake_wal_writer(lsn: Lsn) {
    // SAFETY: a hint to another process.
    unsafe { pg_sys::XLogSetAsyncXactLSN(lsn) };
}

/// WAL bytes that this backend has written since it started.
pub(crate) fn bytes_written() -> u64 {
    // SAFETY: a counter of this process.
    unsafe { pg_sys::pgWalUsage.wal_bytes }
}
