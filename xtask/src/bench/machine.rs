//! What a measurement was made on: without it the numbers mean little.

use std::fs;
use std::path::Path;

/// One fact and its name.
pub(super) type Fact = (String, String);

/// Processors, memory, kernel.
pub(super) fn hardware() -> Vec<Fact> {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let model = field(&cpus, "model name").unwrap_or("of an unknown model");
    vec![
        ("cores".into(), format!("{cores} × {model}")),
        ("memory".into(), gigabytes(&memory)),
        ("kernel".into(), format!("Linux {}", kernel.trim())),
    ]
}

/// How busy the machine is: the averages over 1, 5 and 15 minutes.
pub(super) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// What is mounted.
    pub(super) device: String,
    /// The type of the file system.
    pub(super) kind: String,
}

/// The file system that `path` lies on.
pub(super) fn mount_of(path: &Path) -> Mount {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    innermost(&mounts, path).unwrap_or_else(|| Mount {
        device: "nothing".into(),
        kind: "an unknown file system".into(),
    })
}

/// The mount with the longest path that `path` begins with; the last one of that path counts.
fn innermost(mounts: &str, path: &Path) -> Option<Mount> {
    let mut found: Option<(usize, Mount)> = None;
    for line in mounts.lines() {
        let mut words = line.split(' ');
        let (Some(device), Some(place), Some(kind)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        if path.starts_with(place) && found.as_ref().is_none_or(|(longest, _)| place.len() >= *longest) {
            let mount = Mount {
                device: device.to_owned(),
                kind: kind.to_owned(),
            };
            found = Some((place.len(), mount));
        }
    }
    found.map(|(_, mount)| mount)
}

/// The value of the first line `name: value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

fn gigabytes(meminfo: &str) -> String {
    let kilobytes = field(meminfo, "MemTotal").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    kilobytes.map_or_else(|| "unknown".into(), |kb| format!("{:.1} GB", kb * 1024.0 / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
/dev/vda / ext4 rw 0 0
tmpfs /tmp tmpfs rw 0 0
/dev/loop0 /tmp/x/disk xfs rw 0 0
";

    #[test]
    fn the_innermost_mount_counts() {
        let mount = |path: &str| innermost(MOUNTS, Path::new(path)).map(|mount| (mount.device, mount.kind));
        let expected = |device: &str, kind: &str| Some((device.to_owned(), kind.to_owned()));
        assert_eq!(mount("/tmp/x/disk/data"), expected("/dev/loop0", "xfs"));
        assert_eq!(mount("/tmp/x/disks"), expected("tmpfs", "tmpfs"));
        assert_eq!(mount("/var/lib"), expected("/dev/vda", "ext4"));
        assert_eq!(innermost("", Path::new("/")), None);
    }

    #[test]
    fn memory_is_read_from_the_kernels_words() {
        assert_eq!(
            gigabytes("MemTotal:       25165824 kB\nMemFree: 1 kB\n"),
            "25.8 GB"
        );
        assert_eq!(gigabytes(""), "unknown");
    }
}
