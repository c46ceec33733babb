//! Reading pages from files, verified.

use super::block::{BlockNumber, SEGMENT_BLOCKS};
use super::files::SourceSegment;
use super::page::PageBuffer;
use super::proc::sleep_ms;
use crate::error::{Error, Result};

/// How often a page that fails verification is read before it is called damaged.
const ATTEMPTS: u32 = 3;
/// What a write of the same page by another process may take, between two attempts.
const PAUSE_MS: i64 = 10;

/// Fills the buffer with pages from `block` of the segment on, and verifies each. Returns how many there were.
pub(crate) fn read_verified(
    source: &SourceSegment,
    relation: u32,
    segment: u32,
    block: BlockNumber,
    buffer: &mut PageBuffer,
) -> Result<usize> {
    let capacity = buffer.capacity();
    let count = source.read_blocks(block, buffer.bytes_mut(capacity))?;
    for index in 0..count {
        let in_segment = block + index as u32;
        let block = segment * SEGMENT_BLOCKS + in_segment;
        if !buffer.is_verified(index, block) && !reread(source, in_segment, block, buffer, index)? {
            return Err(Error::CorruptPage {
                relation,
                path: source.path().to_path_buf(),
                block,
            });
        }
    }
    Ok(count)
}

/// Reads one page again that failed verification: a write by another process can be seen half done. Only hint bits
/// can change in a source that nobody uses (core may clone it at the same time), but checksums cover them.
fn reread(
    source: &SourceSegment,
    in_segment: BlockNumber,
    block: BlockNumber,
    buffer: &mut PageBuffer,
    index: usize,
) -> Result<bool> {
    for _ in 1..ATTEMPTS {
        sleep_ms(PAUSE_MS);
        source.read_blocks(in_segment, buffer.page_mut(index))?;
        if buffer.is_verified(index, block) {
            return Ok(true);
        }
    }
    Ok(false)
}
