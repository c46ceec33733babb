//! Files that nobody owns: an orphan finder from outside, independent of the extension's own.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Cluster, Result};

struct Database {
    name: String,
    connectable: bool,
}

/// The folders and relation files that no row owns, as paths in the data folder. Databases that take no connections
/// (templates closed to all, unfinished clones) own their folder; what is in it is not looked at.
pub fn unowned_files(cluster: &Cluster) -> Result<Vec<PathBuf>> {
    let databases = databases(cluster)?;
    let mut owned: BTreeMap<u32, HashSet<String>> = BTreeMap::new();
    let mut found = Vec::new();
    for (root, folder) in database_folders(&cluster.data())? {
        let number = folder.parse::<u32>().ok();
        let path = root.join(&folder);
        let Some((oid, database)) = number.and_then(|oid| Some((oid, databases.get(&oid)?))) else {
            if folder != "pgsql_tmp" {
                found.push(path);
            }
            continue;
        };
        if !database.connectable {
            continue;
        }
        if let std::collections::btree_map::Entry::Vacant(slot) = owned.entry(oid) {
            slot.insert(relation_paths(cluster, &database.name)?);
        }
        look_into(&cluster.data(), &path, &owned[&oid], &mut found)?;
    }
    Ok(found)
}

/// Fails when there is a file that nobody owns.
pub fn expect_no_unowned_files(cluster: &Cluster) -> Result<()> {
    let found = unowned_files(cluster)?;
    if found.is_empty() {
        return Ok(());
    }
    Err(crate::Error::new(format!(
        "{} files or folders without an owner, the first: {:?}",
        found.len(),
        found[0]
    )))
}

fn databases(cluster: &Cluster) -> Result<BTreeMap<u32, Database>> {
    let question = "SELECT oid, datname, datallowconn AND datconnlimit <> -2 FROM pg_database";
    let rows = cluster.session("postgres")?.rows(question)?;
    let read = rows.iter().filter_map(|row| match row.as_slice() {
        [Some(oid), Some(name), Some(connectable)] => Some((
            oid.parse().ok()?,
            Database {
                name: name.clone(),
                connectable: connectable == "t",
            },
        )),
        _ => None,
    });
    Ok(read.collect())
}

fn relation_paths(cluster: &Cluster, database: &str) -> Result<HashSet<String>> {
    let question =
        "SELECT pg_relation_filepath(oid) FROM pg_class WHERE pg_relation_filepath(oid) IS NOT NULL";
    Ok(cluster
        .session(database)?
        .rows(question)?
        .into_iter()
        .flatten()
        .flatten()
        .collect())
}

/// Every entry of `base` and of the version folders in the tablespaces: (folder relative to the data folder, name).
fn database_folders(data: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut roots = vec![PathBuf::from("base")];
    for tablespace in names(&data.join("pg_tblspc"))? {
        let path = Path::new("pg_tblspc").join(tablespace);
        let versions = names(&data.join(&path))?
            .into_iter()
            .filter(|name| name.starts_with("PG_"));
        roots.extend(versions.map(|version| path.join(version)));
    }
    let mut found = Vec::new();
    for root in roots {
        found.extend(
            names(&data.join(&root))?
                .into_iter()
                .map(|name| (root.clone(), name)),
        );
    }
    Ok(found)
}

fn look_into(data: &Path, folder: &Path, owned: &HashSet<String>, found: &mut Vec<PathBuf>) -> Result<()> {
    for name in names(&data.join(folder))? {
        let Some(relation) = relation_of(&name) else {
            if !is_known(&name) {
                found.push(folder.join(name));
            }
            continue;
        };
        if owned.contains(&folder.join(relation).display().to_string()) {
            continue;
        }
        // The empty first file of a dropped relation stays until the next checkpoint.
        let length = fs::metadata(data.join(folder).join(&name)).map_or(0, |file| file.len());
        if length > 0 {
            found.push(folder.join(name));
        }
    }
    Ok(())
}

/// The first file of the relation that a file belongs to: `123`, `123.4`, `123_vm.1`, `t3_123_fsm` → `123`, `t3_123`.
fn relation_of(file: &str) -> Option<&str> {
    let numeric = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (rest, segment) = file
        .split_once('.')
        .map_or((file, None), |(rest, segment)| (rest, Some(segment)));
    if segment.is_some_and(|segment| !numeric(segment)) {
        return None;
    }
    let forks = ["_vm", "_fsm", "_init"];
    let relation = forks
        .iter()
        .find_map(|fork| rest.strip_suffix(fork))
        .unwrap_or(rest);
    let number = match relation.strip_prefix('t') {
        Some(temporary) => {
            temporary
                .split_once('_')
                .filter(|(backend, _)| numeric(backend))?
                .1
        }
        None => relation,
    };
    numeric(number).then_some(relation)
}

fn is_known(file: &str) -> bool {
    file == "PG_VERSION" || file == "pg_filenode.map" || file.starts_with("pg_internal.init")
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        // Dropped while we look.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read?,
    };
    entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::relation_of;

    #[test]
    fn files_are_told_apart() {
        for (file, relation) in [
            ("123", Some("123")),
            ("123.4", Some("123")),
            ("123_vm", Some("123")),
            ("123_fsm.1", Some("123")),
            ("123_init", Some("123")),
            ("t3_123_fsm", Some("t3_123")),
            ("PG_VERSION", None),
            ("pg_filenode.map", None),
            ("123.x", None),
            ("t_123", None),
            ("123_tmp", None),
        ] {
            assert_eq!(relation_of(file), relation, "{file}");
        }
    }
}
