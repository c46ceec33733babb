//! Pages as bytes: what their headers say, and memory to hold many of them.

use super::block::{BLOCK_SIZE, BlockNumber, Fork};
use crate::compat;
use pgrx::pg_sys;
use std::mem::offset_of;

/// Bytes of a page header (SizeOfPageHeaderData).
pub(crate) const PAGE_HEADER_SIZE: usize = offset_of!(pg_sys::PageHeaderData, pd_linp);

const LOWER: usize = offset_of!(pg_sys::PageHeaderData, pd_lower);
const UPPER: usize = offset_of!(pg_sys::PageHeaderData, pd_upper);
const SPECIAL: usize = offset_of!(pg_sys::PageHeaderData, pd_special);

const _: () = assert!(PAGE_HEADER_SIZE == 24);

fn read_u16(page: &[u8], offset: usize) -> usize {
    usize::from(u16::from_ne_bytes([page[offset], page[offset + 1]]))
}

/// Where the item pointers end.
pub(crate) fn lower(page: &[u8]) -> usize {
    read_u16(page, LOWER)
}

/// Whether a page was never initialised (PageIsNew).
pub(crate) fn is_new(page: &[u8]) -> bool {
    read_u16(page, UPPER) == 0
}

/// Whether the bytes between pd_lower and pd_upper mean nothing, so that WAL may leave them out.
///
/// Only main forks keep pd_lower up. Visibility and free space maps are initialised with an empty "data area" and
/// then use all of it, so that core's clone loses both maps in a crash and on standbys; and a metapage from before
/// version 11 has its content in the hole too, with pd_lower at the end of the header.
pub(crate) fn has_standard_hole(fork: Fork, page: &[u8]) -> bool {
    let (lower, upper, special) = (lower(page), read_u16(page, UPPER), read_u16(page, SPECIAL));
    fork == Fork::Main
        && lower > PAGE_HEADER_SIZE
        && lower <= upper
        && upper <= special
        && special <= BLOCK_SIZE
}

/// One page with the alignment that direct I/O and the backend's casts need.
#[derive(Clone)]
#[repr(C, align(4096))]
struct AlignedPage([u8; BLOCK_SIZE]);

const _: () = assert!(size_of::<AlignedPage>() == BLOCK_SIZE);

/// Memory for a run of pages.
pub(crate) struct PageBuffer {
    pages: Vec<AlignedPage>,
}

impl PageBuffer {
    /// Room for `count` pages.
    pub(crate) fn new(count: usize) -> PageBuffer {
        PageBuffer {
            pages: vec![AlignedPage([0; BLOCK_SIZE]); count],
        }
    }

    /// Pages that fit.
    pub(crate) fn capacity(&self) -> usize {
        self.pages.len()
    }

    /// The first `count` pages as bytes.
    pub(crate) fn bytes(&self, count: usize) -> &[u8] {
        let pages = &self.pages[..count];
        // SAFETY: AlignedPage is exactly BLOCK_SIZE bytes without padding, so the slice covers what it points to.
        unsafe { std::slice::from_raw_parts(pages.as_ptr().cast::<u8>(), count * BLOCK_SIZE) }
    }

    /// The first `count` pages as bytes to write to.
    pub(crate) fn bytes_mut(&mut self, count: usize) -> &mut [u8] {
        let pages = &mut self.pages[..count];
        // SAFETY: as in bytes(); the borrow of `self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(pages.as_mut_ptr().cast::<u8>(), count * BLOCK_SIZE) }
    }

    /// One page.
    pub(crate) fn page(&self, index: usize) -> &[u8] {
        &self.pages[index].0
    }

    /// One page to write to.
    pub(crate) fn page_mut(&mut self, index: usize) -> &mut [u8] {
        &mut self.pages[index].0
    }

    /// Whether the page has a sane header and, where checksums are on, the right checksum for its block number.
    pub(crate) fn is_verified(&mut self, index: usize, block: BlockNumber) -> bool {
        let page = self.pages[index].0.as_mut_ptr();
        // SAFETY: a whole page of ours, exclusively borrowed.
        unsafe { compat::page_is_verified(page, block) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(lower: u16, upper: u16, special: u16) -> Vec<u8> {
        let mut page = vec![0; BLOCK_SIZE];
        page[LOWER..LOWER + 2].copy_from_slice(&lower.to_ne_bytes());
        page[UPPER..UPPER + 2].copy_from_slice(&upper.to_ne_bytes());
        page[SPECIAL..SPECIAL + 2].copy_from_slice(&special.to_ne_bytes());
        page
    }

    #[test]
    fn only_main_fork_pages_with_items_have_a_hole() {
        let heap = page(28, 8000, 8192);
        assert!(has_standard_hole(Fork::Main, &heap));
        assert!(!has_standard_hole(Fork::VisibilityMap, &heap));
        assert!(!has_standard_hole(Fork::FreeSpaceMap, &heap));
    }

    #[test]
    fn a_page_whose_header_ends_the_data_has_no_hole() {
        assert!(!has_standard_hole(Fork::Main, &page(24, 8192, 8192)));
        assert!(!has_standard_hole(Fork::Main, &page(0, 0, 0)));
        assert!(!has_standard_hole(Fork::Main, &page(8000, 28, 8192)));
        assert!(!has_standard_hole(Fork::Main, &page(28, 8000, 9000)));
    }

    #[test]
    fn a_zero_page_is_new() {
        assert!(is_new(&page(0, 0, 0)));
        assert!(!is_new(&page(24, 8192, 8192)));
    }

    #[test]
    fn pages_lie_one_behind_the_other() {
        let mut buffer = PageBuffer::new(3);
        buffer.page_mut(2)[0] = 7;
        assert_eq!(buffer.bytes(3)[2 * BLOCK_SIZE], 7);
        buffer.bytes_mut(3)[BLOCK_SIZE] = 9;
        assert_eq!(buffer.page(1)[0], 9);
        assert_eq!(buffer.capacity(), 3);
    }
}
