//! Copying one fork of one relation into an unpublished clone: data first, then WAL.
//!
//! A batch is written to its file past shared buffers, its fsync request is registered, and *then* its full-page
//! images are logged, up to 32 a record. That order needs no delayed checkpoints:
//!
//! - a checkpoint whose redo point lies after the record began after the registration, so it syncs the data;
//! - any other checkpoint replays the record in a crash.
//!
//! It also means that no record needs space which is not on disk yet: a full disk fails the write before there is a
//! record. Pages may reach the disk before their WAL, even before it exists: nobody can connect to an unpublished
//! clone, and the commit that publishes it flushes all of it. The file's pages keep the source's LSN and checksum.

use super::block::{BLOCK_SIZE, BlockNumber, Fork, SEGMENT_BLOCKS};
use super::files::{SourceSegment, TargetSegment};
use super::locator::RelationLocator;
use super::page::PageBuffer;
use super::{reader, sync, wal};
use crate::error::{Error, Result};
use crate::fault;
use std::path::Path;

/// Pages of a batch: 1 MB. Also the distance in which the WAL writer is woken.
const BATCH_PAGES: usize = 128;
/// How a fork's bytes get from file to file. A reflink of whole segments will be another variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataPath {
    /// Large reads into memory, verified, and large writes.
    ReadWrite,
}

/// A relation as the copier sees it: both ends, and who it is in messages.
pub(crate) struct RelationCopy<'a> {
    /// The source database's directory in the relation's tablespace.
    pub(crate) source: &'a Path,
    /// The clone's directory in the tablespace that the relation goes to.
    pub(crate) target: &'a Path,
    /// The relation's name in the clone; the file number is the source's.
    pub(crate) locator: RelationLocator,
    /// The relation's OID.
    pub(crate) relation: u32,
    /// Whether its changes are logged (relpersistence 'p').
    pub(crate) permanent: bool,
}

impl RelationCopy<'_> {
    /// Whether pages and files of the fork are logged: see [`is_logged`].
    fn logs(&self, fork: Fork) -> bool {
        is_logged(self.permanent, fork)
    }
}

/// Whether a fork is logged: everything of a permanent relation, and the init fork of an unlogged one, from which a
/// crash and a standby make its main fork. At wal_level = minimal too: images are always replayed.
pub(crate) fn is_logged(permanent: bool, fork: Fork) -> bool {
    permanent || fork == Fork::Init
}

/// What has been copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    /// Forks.
    pub(crate) forks: u64,
    /// Blocks of all forks.
    pub(crate) blocks: u64,
}

/// The copier of one clone, with the only memory that copying takes: one batch.
pub(crate) struct Copier {
    buffer: PageBuffer,
    path: DataPath,
}

impl Copier {
    /// A copier for a clone.
    pub(crate) fn new(path: DataPath) -> Copier {
        wal::reserve_record_space();
        Copier {
            buffer: PageBuffer::new(BATCH_PAGES),
            path,
        }
    }

    /// Copies every fork that the relation has. A relation without a main fork is an error.
    ///
    /// `each` is called before every batch with the bytes that the one before it copied; there the caller serves
    /// interrupts and counts progress.
    pub(crate) fn copy_relation(
        &mut self,
        job: &RelationCopy<'_>,
        each: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Copied> {
        let mut copied = Copied::default();
        for fork in Fork::ALL {
            match self.copy_fork(job, fork, each)? {
                Some(blocks) => {
                    copied.forks += 1;
                    copied.blocks += blocks;
                }
                None if fork == Fork::Main => {
                    let path = super::locator::segment_path(job.source, job.locator.number, fork, 0);
                    let cause = std::io::Error::from_raw_os_error(libc::ENOENT);
                    return Err(Error::file("open file", &path, cause));
                }
                None => {}
            }
        }
        Ok(copied)
    }

    /// Copies one fork, segment by segment; None if the relation does not have it. Returns its blocks.
    fn copy_fork(
        &mut self,
        job: &RelationCopy<'_>,
        fork: Fork,
        each: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Option<u64>> {
        let mut blocks = 0;
        let mut segment = 0;
        while let Some(source) = SourceSegment::open(job.source, job.locator.number, fork, segment)? {
            let DataPath::ReadWrite = self.path;
            let copied = self.copy_segment(job, fork, segment, &source, each)?;
            blocks += u64::from(copied);
            if copied < SEGMENT_BLOCKS {
                return Ok(Some(blocks));
            }
            segment += 1;
        }
        Ok((segment > 0).then_some(blocks))
    }

    /// Copies one segment file by reads and writes. Returns its blocks.
    fn copy_segment(
        &mut self,
        job: &RelationCopy<'_>,
        fork: Fork,
        segment: u32,
        source: &SourceSegment,
        each: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<BlockNumber> {
        each(0)?;
        let mut count = reader::read_verified(source, job.relation, segment, 0, &mut self.buffer)?;
        if count == 0 && segment > 0 {
            // The remains of a truncation: the segment does not count, and the clone does not need the file.
            return Ok(0);
        }
        let target = TargetSegment::create(job.target, job.locator.number, fork, segment)?;
        let mut block = 0;
        loop {
            target.write_blocks(block, self.buffer.bytes(count))?;
            fault::point("copy.after_write")?;
            if !sync::register(job.locator, fork, segment) {
                target.sync()?;
            }
            fault::point("copy.after_register")?;
            if block == 0 && segment == 0 && job.logs(fork) {
                wal::log_fork_created(job.locator, fork);
            }
            if job.logs(fork) {
                self.log_batch(job, fork, segment * SEGMENT_BLOCKS + block, count);
            }
            fault::point("copy.after_record")?;
            block += count as u32;
            if count < self.buffer.capacity() || block == SEGMENT_BLOCKS {
                each(count as u64 * BLOCK_SIZE as u64)?;
                return Ok(block);
            }
            each(count as u64 * BLOCK_SIZE as u64)?;
            count = reader::read_verified(source, job.relation, segment, block, &mut self.buffer)?;
            if count == 0 {
                return Ok(block);
            }
        }
    }

    /// Logs the images of a batch and wakes the WAL writer.
    fn log_batch(&mut self, job: &RelationCopy<'_>, fork: Fork, first_block: BlockNumber, count: usize) {
        let mut start = 0;
        while start < count {
            let end = (start + wal::IMAGES_PER_RECORD).min(count);
            let block = first_block + start as u32;
            let lsn = wal::log_page_images(job.locator, fork, block, &mut self.buffer, start..end);
            start = end;
            if start == count && count == self.buffer.capacity() {
                wal::wake_wal_writer(lsn);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_logged() {
        for (permanent, fork, logged) in [
            (true, Fork::Main, true),
            (true, Fork::FreeSpaceMap, true),
            (true, Fork::VisibilityMap, true),
            (true, Fork::Init, true),
            (false, Fork::Main, false),
            (false, Fork::FreeSpaceMap, false),
            (false, Fork::VisibilityMap, false),
            (false, Fork::Init, true),
        ] {
            assert_eq!(
                is_logged(permanent, fork),
                logged,
                "permanent {permanent}, fork {fork:?}"
            );
        }
    }
}
