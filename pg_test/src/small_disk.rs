//! Small file systems of their own, for disks that fill and for file systems with particular gifts.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Result;
use crate::process::{ServerUser, give_to_server_user, run};

/// The kinds of file system that can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskKind {
    /// In memory; can be as small as one likes.
    Tmpfs,
    /// In an image file.
    Ext4,
    /// In an image file of at least 300 MB; has reflinks.
    Xfs,
}

/// A mounted file system, unmounted and removed on drop.
pub struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// Makes and mounts a file system of about `megabytes`. `None`, with the reason printed, where we cannot: not
    /// root, no such mkfs, a kernel or container without loop devices.
    #[must_use]
    pub fn mount(kind: DiskKind, megabytes: u64) -> Option<Self> {
        match Self::try_mount(kind, megabytes) {
            Ok(disk) => Some(disk),
            Err(error) => {
                println!("SKIPPED what needs a file system of its own ({kind:?}): {error}");
                None
            }
        }
    }

    /// Where it is mounted; belongs to the server's user.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join("disk")
    }

    /// Takes all free space but `kilobytes` with a file of zeros; replaces an earlier such file.
    pub fn fill_leaving(&self, kilobytes: u64) -> Result<()> {
        // What an allocation may need for its own administration.
        const ROOM: u64 = 4 << 20;
        let filler = self.path().join("filler");
        let _ = fs::remove_file(&filler);
        let leave = kilobytes * 1024;
        let bulk = self.free()?.saturating_sub(leave + ROOM);
        if bulk > 0 {
            run(Command::new("fallocate")
                .args(["-l", &bulk.to_string()])
                .arg(&filler))?;
        }
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&filler)?;
        while let rest @ 1.. = self.free()?.saturating_sub(leave) {
            let chunk = usize::try_from(rest.min(64 << 10)).map_err(|e| crate::Error::new(e.to_string()))?;
            match file.write_all(&vec![0; chunk]).and_then(|()| file.sync_all()) {
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
                written => written?,
            }
        }
        Ok(())
    }

    fn free(&self) -> Result<u64> {
        let disk = rustix::fs::statvfs(self.path()).map_err(|e| crate::Error::new(e.to_string()))?;
        Ok(disk.f_bavail * disk.f_frsize)
    }

    /// Gives the space taken by [`SmallDisk::fill_leaving`] back.
    pub fn make_room(&self) -> Result<()> {
        Ok(fs::remove_file(self.path().join("filler"))?)
    }

    fn try_mount(kind: DiskKind, megabytes: u64) -> Result<Self> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        if ServerUser::needed()?.is_none() {
            return Err(crate::Error::new("only root can mount"));
        }
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("blockwise-{}-disk{serial}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(folder.join("disk"))?;
        let disk = Self { folder };
        let image = disk.folder.join("image");
        match kind {
            DiskKind::Tmpfs => {
                let size = format!("size={megabytes}m");
                run(Command::new("mount")
                    .args(["-t", "tmpfs", "-o", &size, "none"])
                    .arg(disk.path()))?;
            }
            DiskKind::Ext4 => {
                // -m 0: what root may still write must not differ from what the server may.
                disk.mount_image(&image, megabytes, &["mkfs.ext4", "-q", "-F", "-m", "0"])?;
            }
            DiskKind::Xfs => disk.mount_image(&image, megabytes.max(300), &["mkfs.xfs", "-q", "-f"])?,
        }
        give_to_server_user(&disk.path())?;
        Ok(disk)
    }

    fn mount_image(&self, image: &Path, megabytes: u64, mkfs: &[&str]) -> Result<()> {
        fs::File::create(image)?.set_len(megabytes << 20)?;
        run(Command::new(mkfs[0]).args(&mkfs[1..]).arg(image))?;
        run(Command::new("mount")
            .args(["-o", "loop"])
            .arg(image)
            .arg(self.path()))
        .map(|_| ())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a server that still has files open there is about to be stopped.
        let _ = Command::new("umount").arg("-l").arg(self.path()).output();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
