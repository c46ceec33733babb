//! Rows of pg_class on private copies of pages.
//!
//! The catalog of another database cannot be read through relcache or syscache, and a page copy has no buffer that
//! the backend's visibility tests could set hint bits through. So tuples are decoded here, and visibility is decided
//! by the commit log alone.

use super::block::BLOCK_SIZE;
use super::page::{PAGE_HEADER_SIZE, is_new, lower};
use pgrx::pg_sys;
use std::mem::offset_of;

/// Bytes of an item pointer.
const ITEM_SIZE: usize = 4;
/// lp_flags of a tuple that is there (LP_NORMAL).
const LP_NORMAL: u32 = 1;
/// Bytes of a tuple header before the null bitmap (SizeofHeapTupleHeader).
const TUPLE_HEADER_SIZE: usize = offset_of!(pg_sys::HeapTupleHeaderData, t_bits);
/// The fixed part of a row of pg_class that is looked at here.
const CLASS_FIXED_SIZE: usize = offset_of!(pg_sys::FormData_pg_class, relkind) + 1;

const _: () = assert!(CLASS_FIXED_SIZE > offset_of!(pg_sys::FormData_pg_class, relpersistence));

const _: () = assert!(TUPLE_HEADER_SIZE == 23);

/// A row of pg_class, as far as a copier needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClassRow {
    /// The relation.
    pub(crate) oid: u32,
    /// Its file number, 0 if the relation map knows it.
    pub(crate) file_number: u32,
    /// Its tablespace, 0 for the database's default.
    pub(crate) tablespace: u32,
    /// relkind.
    pub(crate) kind: u8,
    /// relpersistence.
    pub(crate) persistence: u8,
}

impl ClassRow {
    /// Whether relations of this kind have files of their own (RELKIND_HAS_STORAGE).
    pub(crate) fn has_storage(&self) -> bool {
        matches!(self.kind, b'r' | b'i' | b'S' | b't' | b'm')
    }
}

/// A tuple on a page copy.
pub(crate) struct Tuple<'p> {
    bytes: &'p [u8],
}

/// Why a page could not be read.
pub(crate) type Problem = &'static str;

impl<'p> Tuple<'p> {
    fn u32_at(&self, offset: usize) -> u32 {
        let bytes = &self.bytes[offset..offset + 4];
        u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    fn infomask(&self) -> u32 {
        let offset = offset_of!(pg_sys::HeapTupleHeaderData, t_infomask);
        u32::from(u16::from_ne_bytes([self.bytes[offset], self.bytes[offset + 1]]))
    }

    fn xmin(&self) -> u32 {
        self.u32_at(0)
    }

    fn raw_xmax(&self) -> u32 {
        self.u32_at(4)
    }

    /// The fixed part of the row, decoded as pg_class.
    pub(crate) fn class_row(&self) -> Result<ClassRow, Problem> {
        let start = usize::from(self.bytes[offset_of!(pg_sys::HeapTupleHeaderData, t_hoff)]);
        if start < TUPLE_HEADER_SIZE || start + CLASS_FIXED_SIZE > self.bytes.len() {
            return Err("a row is shorter than its header says");
        }
        let field = |offset: usize| self.u32_at(start + offset);
        Ok(ClassRow {
            oid: field(offset_of!(pg_sys::FormData_pg_class, oid)),
            file_number: field(offset_of!(pg_sys::FormData_pg_class, relfilenode)),
            tablespace: field(offset_of!(pg_sys::FormData_pg_class, reltablespace)),
            kind: self.bytes[start + offset_of!(pg_sys::FormData_pg_class, relkind)],
            persistence: self.bytes[start + offset_of!(pg_sys::FormData_pg_class, relpersistence)],
        })
    }
}

/// The tuples of a page, dead ones included.
pub(crate) fn tuples(page: &[u8]) -> Result<Vec<Tuple<'_>>, Problem> {
    if is_new(page) {
        return Ok(Vec::new());
    }
    let end = lower(page);
    if !(PAGE_HEADER_SIZE..=BLOCK_SIZE).contains(&end) {
        return Err("a page header is damaged");
    }
    let mut found = Vec::with_capacity((end - PAGE_HEADER_SIZE) / ITEM_SIZE);
    for item in page[PAGE_HEADER_SIZE..end].chunks_exact(ITEM_SIZE) {
        // ItemIdData: 15 bits offset, 2 bits flags, 15 bits length, from the lowest bit on.
        let item = u32::from_ne_bytes([item[0], item[1], item[2], item[3]]);
        let (offset, flags, length) = (item & 0x7fff, (item >> 15) & 3, item >> 17);
        if flags != LP_NORMAL {
            continue;
        }
        let (offset, length) = (offset as usize, length as usize);
        if length < TUPLE_HEADER_SIZE || offset + length > BLOCK_SIZE {
            return Err("an item pointer leads outside its page");
        }
        found.push(Tuple {
            bytes: &page[offset..offset + length],
        });
    }
    Ok(found)
}

/// What the commit log says of a transaction, and who updated a row that several sessions locked.
pub(crate) trait CommitLog {
    /// Whether the transaction committed.
    fn committed(&self, xid: u32) -> bool;
    /// Whether the transaction is still running.
    fn in_progress(&self, xid: u32) -> bool;
    /// The updating member of the multixact in a tuple's xmax, 0 if all only lock.
    fn updater(&self, tuple: &Tuple<'_>) -> u32;
}

/// Whether a row is part of the committed state of a database in which no transaction runs.
///
/// Precondition: nobody is connected to that database and it has no prepared transaction, so that every xid on its
/// pages has ended. No snapshot is needed then, and none is taken: a committed xmin and no committed updater is all.
pub(crate) fn is_committed(tuple: &Tuple<'_>, log: &impl CommitLog) -> bool {
    inserted(tuple, |xid| log.committed(xid)) && !deleted(tuple, log)
}

/// Whether a row belongs to the committed state, or to a transaction that is still running.
///
/// For a database in use: an insertion counts from the moment it is there, a deletion only once committed. The test
/// for "running" comes first, because a transaction leaves the list of running ones after its commit is in the log.
pub(crate) fn may_be_live(tuple: &Tuple<'_>, log: &impl CommitLog) -> bool {
    inserted(tuple, |xid| log.in_progress(xid) || log.committed(xid)) && !deleted(tuple, log)
}

fn inserted(tuple: &Tuple<'_>, counts: impl Fn(u32) -> bool) -> bool {
    let mask = tuple.infomask();
    if mask & pg_sys::HEAP_XMIN_COMMITTED != 0 {
        // Also frozen rows, which have both bits.
        return true;
    }
    mask & pg_sys::HEAP_XMIN_INVALID == 0 && counts(tuple.xmin())
}

fn deleted(tuple: &Tuple<'_>, log: &impl CommitLog) -> bool {
    let mask = tuple.infomask();
    if mask & pg_sys::HEAP_XMAX_INVALID != 0 || only_locked(mask) {
        return false;
    }
    if mask & pg_sys::HEAP_XMAX_IS_MULTI != 0 {
        let updater = log.updater(tuple);
        return updater != 0 && log.committed(updater);
    }
    mask & pg_sys::HEAP_XMAX_COMMITTED != 0 || log.committed(tuple.raw_xmax())
}

/// HEAP_XMAX_IS_LOCKED_ONLY of htup_details.h.
fn only_locked(mask: u32) -> bool {
    let exclusive_lock_only = pg_sys::HEAP_XMAX_IS_MULTI | pg_sys::HEAP_LOCK_MASK;
    mask & pg_sys::HEAP_XMAX_LOCK_ONLY != 0 || mask & exclusive_lock_only == pg_sys::HEAP_XMAX_EXCL_LOCK
}

/// The fixed part of a tuple header, aligned as in a buffer.
#[repr(C, align(8))]
struct AlignedHeader([u8; TUPLE_HEADER_SIZE]);

/// The server's commit log.
pub(crate) struct ServerCommitLog;

impl CommitLog for ServerCommitLog {
    fn committed(&self, xid: u32) -> bool {
        // SAFETY: a lookup in pg_xact. The database's datfrozenxid keeps that part of it from being truncated.
        unsafe { pg_sys::TransactionIdDidCommit(pg_sys::TransactionId::from(xid)) }
    }

    fn in_progress(&self, xid: u32) -> bool {
        // SAFETY: a lookup in the proc array.
        unsafe { pg_sys::TransactionIdIsInProgress(pg_sys::TransactionId::from(xid)) }
    }

    fn updater(&self, tuple: &Tuple<'_>) -> u32 {
        // The function wants a header with a tuple's alignment; a page copy does not promise that.
        let mut header = AlignedHeader([0; TUPLE_HEADER_SIZE]);
        header.0.copy_from_slice(&tuple.bytes[..TUPLE_HEADER_SIZE]);
        // SAFETY: an aligned copy of a whole tuple header whose xmax is a multixact, as the function requires.
        unsafe { pg_sys::HeapTupleGetUpdateXid((&raw mut header).cast()) }.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Transactions by number: committed, running, or (not listed) aborted.
    #[derive(Default)]
    struct Log {
        committed: Vec<u32>,
        running: Vec<u32>,
        updaters: HashMap<u32, u32>,
    }

    impl CommitLog for Log {
        fn committed(&self, xid: u32) -> bool {
            self.committed.contains(&xid)
        }

        fn in_progress(&self, xid: u32) -> bool {
            self.running.contains(&xid)
        }

        fn updater(&self, tuple: &Tuple<'_>) -> u32 {
            self.updaters.get(&tuple.raw_xmax()).copied().unwrap_or(0)
        }
    }

    const HOFF: usize = 24;

    fn tuple_bytes(xmin: u32, xmax: u32, mask: u32) -> Vec<u8> {
        let mut bytes = vec![0; HOFF + CLASS_FIXED_SIZE];
        bytes[0..4].copy_from_slice(&xmin.to_ne_bytes());
        bytes[4..8].copy_from_slice(&xmax.to_ne_bytes());
        let mask_at = offset_of!(pg_sys::HeapTupleHeaderData, t_infomask);
        bytes[mask_at..mask_at + 2].copy_from_slice(&(mask as u16).to_ne_bytes());
        bytes[offset_of!(pg_sys::HeapTupleHeaderData, t_hoff)] = HOFF as u8;
        bytes
    }

    fn live(xmin: u32, xmax: u32, mask: u32, log: &Log) -> bool {
        is_committed(
            &Tuple {
                bytes: &tuple_bytes(xmin, xmax, mask),
            },
            log,
        )
    }

    #[test]
    fn a_row_counts_when_its_inserter_committed() {
        let log = Log {
            committed: vec![10],
            ..Log::default()
        };
        let no_xmax = pg_sys::HEAP_XMAX_INVALID;
        assert!(live(10, 0, no_xmax, &log));
        assert!(!live(11, 0, no_xmax, &log));
        assert!(live(11, 0, no_xmax | pg_sys::HEAP_XMIN_COMMITTED, &log));
        assert!(!live(10, 0, no_xmax | pg_sys::HEAP_XMIN_INVALID, &log));
        // Frozen: both bits, whatever the xid.
        let frozen = pg_sys::HEAP_XMIN_COMMITTED | pg_sys::HEAP_XMIN_INVALID;
        assert!(live(11, 0, no_xmax | frozen, &log));
    }

    #[test]
    fn a_row_is_gone_when_its_deleter_committed() {
        let log = Log {
            committed: vec![10, 12],
            ..Log::default()
        };
        assert!(!live(10, 12, 0, &log));
        assert!(live(10, 13, 0, &log));
        assert!(!live(10, 13, pg_sys::HEAP_XMAX_COMMITTED, &log));
        assert!(live(10, 12, pg_sys::HEAP_XMAX_INVALID, &log));
    }

    #[test]
    fn a_locked_row_is_still_there() {
        let log = Log {
            committed: vec![10, 12],
            ..Log::default()
        };
        let lock = pg_sys::HEAP_XMAX_LOCK_ONLY | pg_sys::HEAP_XMAX_EXCL_LOCK;
        assert!(live(10, 12, lock, &log));
        assert!(live(10, 12, pg_sys::HEAP_XMAX_EXCL_LOCK, &log));
    }

    #[test]
    fn a_multixact_deletes_by_its_updater_only() {
        let log = Log {
            committed: vec![10, 12],
            updaters: HashMap::from([(70, 12), (71, 13)]),
            ..Log::default()
        };
        let multi = pg_sys::HEAP_XMAX_IS_MULTI;
        assert!(!live(10, 70, multi, &log));
        assert!(live(10, 71, multi, &log));
        assert!(live(10, 72, multi, &log));
    }

    #[test]
    fn a_running_insertion_may_be_live_and_a_running_deletion_is_none() {
        let log = Log {
            committed: vec![10],
            running: vec![20],
            ..Log::default()
        };
        let inserted = tuple_bytes(20, 0, pg_sys::HEAP_XMAX_INVALID);
        assert!(may_be_live(&Tuple { bytes: &inserted }, &log));
        assert!(!is_committed(&Tuple { bytes: &inserted }, &log));
        let deleted = tuple_bytes(10, 20, 0);
        assert!(may_be_live(&Tuple { bytes: &deleted }, &log));
    }

    fn page_with(items: &[Vec<u8>]) -> Vec<u8> {
        let mut page = vec![0; BLOCK_SIZE];
        let mut upper = BLOCK_SIZE;
        for (index, item) in items.iter().enumerate() {
            upper = (upper - item.len()) & !7;
            page[upper..upper + item.len()].copy_from_slice(item);
            let pointer = upper as u32 | LP_NORMAL << 15 | (item.len() as u32) << 17;
            let at = PAGE_HEADER_SIZE + index * ITEM_SIZE;
            page[at..at + 4].copy_from_slice(&pointer.to_ne_bytes());
        }
        let end = (PAGE_HEADER_SIZE + items.len() * ITEM_SIZE) as u16;
        page[12..14].copy_from_slice(&end.to_ne_bytes());
        page[14..16].copy_from_slice(&(upper as u16).to_ne_bytes());
        page
    }

    #[test]
    fn a_page_yields_its_rows() {
        let mut bytes = tuple_bytes(10, 0, pg_sys::HEAP_XMAX_INVALID);
        let kind_at = HOFF + offset_of!(pg_sys::FormData_pg_class, relkind);
        bytes[HOFF..HOFF + 4].copy_from_slice(&16384u32.to_ne_bytes());
        bytes[kind_at] = b'm';
        let page = page_with(&[tuple_bytes(9, 0, 0), bytes]);
        let rows = tuples(&page).expect("the page is well formed");
        assert_eq!(rows.len(), 2);
        let row = rows[1].class_row().expect("the row is whole");
        assert_eq!((row.oid, row.kind), (16384, b'm'));
        assert!(row.has_storage());
    }

    #[test]
    fn damage_is_reported() {
        let mut page = page_with(&[tuple_bytes(9, 0, 0)]);
        let outside = 8190u32 | LP_NORMAL << 15 | 100 << 17;
        page[PAGE_HEADER_SIZE..PAGE_HEADER_SIZE + 4].copy_from_slice(&outside.to_ne_bytes());
        assert!(tuples(&page).is_err());
        page[12..14].copy_from_slice(&9000u16.to_ne_bytes());
        assert!(tuples(&page).is_err());
        assert!(
            tuples(&vec![0; BLOCK_SIZE])
                .expect("a zero page is empty")
                .is_empty()
        );
    }
}
