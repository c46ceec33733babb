//! Where a measurement takes place: a fresh file system and a server that lives on it with all it has.
//!
//! Creating and dropping databases ages a file system (ext4 avoids inodes that were deleted a moment ago, for every
//! method alike), so each measurement gets one that nobody has used.

use super::machine::{self, Fact};
use crate::exec::{doing, say};
use anyhow::{Context, Result, bail};
use pg_test::{Cluster, ClusterBuilder, DiskKind, Installation, SmallDisk, StopMode};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The file systems to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum FileSystem {
    /// A fresh XFS in an image file (as root only).
    Xfs,
    /// A fresh ext4 in an image file (as root only).
    Ext4,
    /// The temporary folder as it is.
    None,
}

/// What differs from the server's defaults.
const SETTINGS: [(&str, &str); 7] = [
    // The source fits, as on a real server.
    ("shared_buffers", "1GB"),
    // No checkpoint comes of its own.
    ("max_wal_size", "16GB"),
    ("checkpoint_timeout", "30min"),
    // Both ways find WAL files ready to be used again. By default their number would follow what was written lately,
    // and the way that writes more would make them for the one that writes less.
    ("min_wal_size", "4GB"),
    ("wal_level", "replica"),
    ("wal_compression", "off"),
    ("autovacuum", "off"),
];

/// A server on a file system of its own. What it made goes when it is dropped, in the order of the fields.
pub(super) struct Place {
    cluster: Cluster,
    disk: Option<SmallDisk>,
    direct: bool,
    _janitor: Janitor,
}

impl Place {
    /// Makes the file system, with room for `megabytes`, and starts the server.
    pub(super) fn make(installation: &Installation, kind: FileSystem, megabytes: u64) -> Result<Self> {
        expect_room(megabytes)?;
        let disk = match kind {
            FileSystem::Xfs => SmallDisk::mount(DiskKind::Xfs, megabytes),
            FileSystem::Ext4 => SmallDisk::mount(DiskKind::Ext4, megabytes),
            FileSystem::None => None,
        };
        if disk.is_none() && kind != FileSystem::None {
            say("Measuring in the temporary folder instead, on whatever file system that is.");
        }
        let direct = disk.as_ref().is_some_and(bypass_cache);
        let mut builder = ClusterBuilder::new(installation).keep(false);
        for (name, value) in SETTINGS {
            builder = builder.set(name, value);
        }
        if let Some(disk) = &disk {
            builder = builder.under(disk.path());
        }
        let cluster = doing("making a server on it, with checksums", || Ok(builder.create()?))?;
        let janitor = Janitor::hire(&cluster, disk.as_ref())?;
        let place = Self {
            cluster,
            disk,
            direct,
            _janitor: janitor,
        };
        doing("starting the server", || Ok(place.cluster.start()?))?;
        Ok(place)
    }

    /// The server.
    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// File system, version and settings.
    pub(super) fn facts(&self) -> Result<Vec<Fact>> {
        let kind = machine::mount_of(&self.cluster.data()).kind;
        let below = machine::mount_of(&std::env::temp_dir()).kind;
        let place = match (&self.disk, self.direct) {
            (Some(_), true) => format!("fresh {kind} in a loop-mounted image (direct I/O) on {below}"),
            (Some(_), false) => format!("fresh {kind} in a loop-mounted image (cached twice) on {below}"),
            (None, _) => format!("the temporary folder, {kind}"),
        };
        let version: String = self
            .cluster
            .session("postgres")?
            .query_value("SHOW server_version")?;
        let settings = SETTINGS.map(|(name, value)| format!("{name} {value}"));
        Ok(vec![
            ("file system".into(), format!("{place}; data and WAL together")),
            ("server".into(), format!("PostgreSQL {version}, checksums on")),
            (
                "settings".into(),
                format!("{}; defaults otherwise", settings.join(", ")),
            ),
        ])
    }

    /// Writes out what the file system still holds in memory, so that no run pays for the one before.
    pub(super) fn settle(&self) -> Result<()> {
        let folder = std::fs::File::open(self.cluster.data())?;
        rustix::fs::syncfs(&folder).context("cannot sync the file system")
    }

    /// Stops the server in good order; its log must hold no complaint.
    pub(super) fn close(self) -> Result<()> {
        self.cluster.stop(StopMode::Fast)?;
        Ok(self.cluster.check_log()?)
    }
}

/// Lets the loop device go past the cache of the file system below it, as a disk would: else each flush of WAL also
/// waits for whatever data anybody has written to the image before. False where that cannot be had.
fn bypass_cache(disk: &SmallDisk) -> bool {
    let device = machine::mount_of(&disk.path()).device;
    let outcome = Command::new("losetup").args(["--direct-io=on", &device]).output();
    outcome.is_ok_and(|output| output.status.success())
}

/// The image is sparse: it must not be promised more than the disk below it has.
fn expect_room(megabytes: u64) -> Result<()> {
    let folder = std::env::temp_dir();
    let disk = rustix::fs::statvfs(&folder)
        .with_context(|| format!("cannot tell the free space of {}", folder.display()))?;
    let free = (disk.f_bavail * disk.f_frsize) >> 20;
    if free < megabytes {
        bail!(
            "this takes up to {megabytes} MB in {}, where {free} MB are free; TMPDIR names another folder, a smaller \
             --scale takes less",
            folder.display()
        );
    }
    Ok(())
}

/// A process that waits for the end of this one, whatever way that comes (Ctrl-C, a kill), and then clears away what
/// is left: server, mount, folder. After an orderly end there is nothing for it to do.
struct Janitor {
    child: Child,
}

/// `$1` the data folder, `$2` the mount or nothing, `$3` the folder to remove. The server is signalled only if it
/// works in that very folder; SIGQUIT is its immediate stop.
const CLEARING: &str = r#"
    trap '' HUP INT TERM
    cat >/dev/null
    pid=$(head -n 1 "$1/postmaster.pid" 2>/dev/null)
    if [ -n "$pid" ] && [ "$(readlink "/proc/$pid/cwd")" = "$1" ]; then
        kill -QUIT "$pid"
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            [ -d "/proc/$pid" ] || break
            sleep 1
        done
    fi
    [ -z "$2" ] || ! mountpoint -q "$2" || umount "$2" || umount -l "$2"
    rm -rf -- "$3"
"#;

impl Janitor {
    fn hire(cluster: &Cluster, disk: Option<&SmallDisk>) -> Result<Self> {
        let mount = disk.map(SmallDisk::path).unwrap_or_default();
        let folder = mount.parent().unwrap_or(cluster.folder());
        let child = Command::new("sh")
            .args(["-c", CLEARING, "sh"])
            .args([&cluster.data(), &mount, Path::new(folder)])
            .stdin(Stdio::piped())
            // A group of its own: Ctrl-C is not for it.
            .process_group(0)
            .spawn()
            .context("cannot start the process that cleans up after an interruption")?;
        Ok(Self { child })
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        // The end of its input is its signal.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
