//! Visibility maps and free space maps of a database, byte by byte from their files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::{Cluster, Error, Result};

const BLOCK: usize = 8192;
/// LSN and checksum, the first fields of a page: they may differ between two copies of one page.
const LSN_AND_CHECKSUM: usize = 10;
const PAGE_HEADER: usize = 24;

/// The map forks of every permanent relation with such a fork, keyed by relation and fork.
#[derive(Clone, PartialEq, Eq)]
pub struct ForkMaps {
    forks: BTreeMap<(String, &'static str), Vec<u8>>,
}

impl ForkMaps {
    /// Reads the maps of a database after a checkpoint. On a standby call `write_out_as_standby` before.
    pub fn of(cluster: &Cluster, database: &str) -> Result<Self> {
        cluster.checkpoint()?;
        let relations = cluster.session(database)?.rows(
            "SELECT oid::regclass::text, pg_relation_filepath(oid) FROM pg_class \
             WHERE relkind IN ('r', 'm', 't', 'i') AND relpersistence = 'p' AND NOT relisshared \
               AND pg_relation_filepath(oid) IS NOT NULL",
        )?;
        let mut forks = BTreeMap::new();
        for row in relations {
            let [Some(name), Some(path)] = row.as_slice() else {
                continue;
            };
            for fork in ["vm", "fsm"] {
                let bytes = fork_bytes(&cluster.data().join(format!("{path}_{fork}")))?;
                if !bytes.is_empty() {
                    forks.insert((name.clone(), fork), bytes);
                }
            }
        }
        if !forks.keys().any(|(_, fork)| *fork == "vm") {
            return Err(Error::new(format!(
                "{database:?} has no visibility map: nothing to compare"
            )));
        }
        Ok(Self { forks })
    }

    /// How many all-visible and all-frozen bits are set, over all relations.
    #[must_use]
    pub fn visibility_bits(&self) -> u64 {
        let maps = self.forks.iter().filter(|((_, fork), _)| *fork == "vm");
        let pages = maps.flat_map(|(_, bytes)| bytes.chunks(BLOCK));
        pages
            .flat_map(|page| page.iter().skip(PAGE_HEADER))
            .map(|byte| u64::from(byte.count_ones()))
            .sum()
    }

    /// Fails, naming the forks, when the other's maps differ.
    pub fn expect_equal(&self, other: &Self) -> Result<()> {
        let keys = self.forks.keys().chain(other.forks.keys());
        let differing: BTreeMap<_, _> = keys
            .filter(|key| self.forks.get(*key) != other.forks.get(*key))
            .map(|key| (key, difference(self.forks.get(key), other.forks.get(key))))
            .collect();
        if differing.is_empty() {
            return Ok(());
        }
        let some: Vec<String> = differing
            .iter()
            .take(20)
            .map(|(key, how)| format!("{key:?}: {how}"))
            .collect();
        Err(Error::new(format!(
            "{} map forks differ:\n{}",
            differing.len(),
            some.join("\n")
        )))
    }
}

/// The bytes of a fork, all segments, without LSNs and checksums; nothing where there is no fork.
fn fork_bytes(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = match fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read?,
    };
    for page in bytes.chunks_mut(BLOCK) {
        let masked = page.len().min(LSN_AND_CHECKSUM);
        page[..masked].fill(0);
    }
    Ok(bytes)
}

fn difference(one: Option<&Vec<u8>>, other: Option<&Vec<u8>>) -> String {
    let (Some(one), Some(other)) = (one, other) else {
        return if one.is_some() {
            "missing".into()
        } else {
            "not expected".into()
        };
    };
    let place = one.iter().zip(other).position(|(a, b)| a != b);
    match place {
        Some(at) => format!("differs from byte {at} on (block {})", at / BLOCK),
        None => format!("{} bytes against {}", one.len(), other.len()),
    }
}
