//! Segment files, read and written past shared buffers.
//!
//! A fork is a chain of segment files of 1 GB; the next one counts only while the one before is full. A partial
//! block at the end of a file does not count either, as in md.c. Files are plain `std::fs::File`s: they close when
//! they are dropped, so nothing stays open when an error unwinds.

use super::block::{BLOCK_SIZE, BlockNumber, Fork, SEGMENT_BLOCKS};
use super::locator::segment_path;
use super::sync;
use crate::error::{Error, Result};
use pgrx::pg_sys;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A segment file that is read.
pub(crate) struct SourceSegment {
    file: File,
    path: PathBuf,
}

impl SourceSegment {
    /// Opens a segment; None if there is no such file.
    pub(crate) fn open(
        directory: &Path,
        number: u32,
        fork: Fork,
        segment: u32,
    ) -> Result<Option<SourceSegment>> {
        let path = segment_path(directory, number, fork, segment);
        match File::open(&path) {
            Ok(file) => Ok(Some(SourceSegment { file, path })),
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(Error::file("open file", &path, cause)),
        }
    }

    /// Reads whole blocks from `block` (within the segment) on, as many as fit and as there are. Returns how many.
    pub(crate) fn read_blocks(&self, block: BlockNumber, bytes: &mut [u8]) -> Result<usize> {
        let wanted = bytes.len().min((SEGMENT_BLOCKS - block) as usize * BLOCK_SIZE);
        let start = u64::from(block) * BLOCK_SIZE as u64;
        let mut done = 0;
        while done < wanted {
            match self.file.read_at(&mut bytes[done..wanted], start + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) => return Err(Error::file("read file", &self.path, cause)),
            }
        }
        Ok(done / BLOCK_SIZE)
    }

    /// The file's path, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// A segment file that is written.
pub(crate) struct TargetSegment {
    file: File,
    path: PathBuf,
}

impl TargetSegment {
    /// Creates a segment that must not exist yet.
    pub(crate) fn create(directory: &Path, number: u32, fork: Fork, segment: u32) -> Result<TargetSegment> {
        let path = segment_path(directory, number, fork, segment);
        let file = create_new(&path)?;
        Ok(TargetSegment { file, path })
    }

    /// Writes whole blocks at `block` (within the segment).
    pub(crate) fn write_blocks(&self, block: BlockNumber, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all_at(bytes, u64::from(block) * BLOCK_SIZE as u64)
            .map_err(|cause| Error::file("write file", &self.path, full_disk(cause)))
    }

    /// Syncs the file now.
    pub(crate) fn sync(&self) -> Result<()> {
        sync_file(&self.file, &self.path)
    }
}

/// Creates a file that must not exist yet. Its mode is the server's: the umask was set by the postmaster.
pub(crate) fn create_new(path: &Path) -> Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|cause| Error::file("create file", path, cause))
}

/// Writes a new file whole and makes its contents durable.
pub(crate) fn write_new(path: &Path, contents: &[u8]) -> Result<()> {
    let mut file = create_new(path)?;
    file.write_all(contents)
        .map_err(|cause| Error::file("write file", path, full_disk(cause)))?;
    sync_file(&file, path)
}

/// Makes a new file of zeros whose space is there, without syncing it: the next sync of its directory makes the
/// allocation durable on every journalling file system.
pub(crate) fn allocate_new(path: &Path, bytes: usize) -> Result<()> {
    let mut file = create_new(path)?;
    // SAFETY: an open file; the call touches no memory of ours.
    let code = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as i64) };
    match code {
        0 => Ok(()),
        // Some file systems cannot allocate in advance.
        libc::EOPNOTSUPP | libc::EINVAL => file
            .write_all(&vec![0; bytes])
            .map_err(|cause| Error::file("write file", path, full_disk(cause))),
        code => Err(Error::file(
            "allocate file",
            path,
            io::Error::from_raw_os_error(code),
        )),
    }
}

/// Syncs an open file, if the server syncs files at all.
pub(crate) fn sync_file(file: &File, path: &Path) -> Result<()> {
    if !sync::is_enabled() {
        return Ok(());
    }
    file.sync_all()
        .map_err(|cause| Error::file("fsync file", path, cause))
}

/// A write of nothing means a full disk, as mdextend says.
fn full_disk(cause: io::Error) -> io::Error {
    if cause.kind() == ErrorKind::WriteZero {
        io::Error::from_raw_os_error(libc::ENOSPC)
    } else {
        cause
    }
}

/// Room for a few file descriptors that fd.c does not manage.
///
/// Counted with the backend so that its own files and ours together stay below the limit of the process.
#[must_use]
pub(crate) struct ExternalFiles {
    count: u32,
}

impl ExternalFiles {
    /// Reserves `count` descriptors; EMFILE if the backend has none left.
    pub(crate) fn reserve(count: u32) -> Result<ExternalFiles> {
        let mut reserved = ExternalFiles { count: 0 };
        for _ in 0..count {
            // SAFETY: counts up, and closes files of fd.c's cache if need be.
            if !unsafe { pg_sys::AcquireExternalFD() } {
                let cause = io::Error::from_raw_os_error(libc::EMFILE);
                return Err(Error::file("open files in", Path::new("."), cause));
            }
            reserved.count += 1;
        }
        Ok(reserved)
    }
}

impl Drop for ExternalFiles {
    fn drop(&mut self) {
        for _ in 0..self.count {
            // SAFETY: counts down what reserve() counted up; an abort does not touch this counter.
            unsafe { pg_sys::ReleaseExternalFD() };
        }
    }
}
