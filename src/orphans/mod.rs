//! Directories and relation files that no catalog row owns. Report only: nothing is ever removed.
//!
//! Files are listed first and owners are looked up afterwards, so a relation that is created meanwhile cannot look
//! like an orphan; what is dropped meanwhile vanishes before the second look. What a running transaction may own is
//! left out: rows of transactions that still run count as owners, and a file that was written since the oldest
//! transaction of its database began is not reported before that transaction has ended. Empty files are not reported
//! either: a dropped relation leaves one until the next checkpoint.
//!
//! pg_class of another database is read through shared buffers with the relation locked and its file number looked
//! up under the lock. An unfinished database (its row uncommitted or invalid) is not looked into: its files may be
//! written past shared buffers.
#![deny(unsafe_code)]

mod name;

use crate::error::{Error, Result};
use crate::storage::block::BLOCK_SIZE;
use crate::storage::buffers::PageReader;
use crate::storage::database::{self, KnownDatabase};
use crate::storage::heap::{self, ServerCommitLog};
use crate::storage::locator::{RelationLocator, database_directory, segment_path};
use crate::storage::lock::{self, LockMode};
use crate::storage::page::PageBuffer;
use crate::storage::{activity, block, directory, proc, relmap, spi};
use pgrx::pg_sys::Oid;
use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// RelationRelationId: pg_class.
const PG_CLASS: u32 = 1259;
/// GLOBALTABLESPACE_OID.
const PG_GLOBAL: u32 = 1664;
/// Between the two looks: more than a commit that has just happened needs to unlink its files.
const SECOND_LOOK_MS: i64 = 100;
/// Seconds from 1970 to 2000, PostgreSQL's epoch.
const POSTGRES_EPOCH: i64 = 946_684_800;

/// A file or directory without an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Orphan {
    /// Where it is.
    pub(crate) tablespace: Oid,
    /// The database whose directory it is or is in; 0 for shared relations.
    pub(crate) database: Oid,
    /// Its path, relative to the data directory.
    pub(crate) path: PathBuf,
    /// Its size; of a directory, that of its files.
    pub(crate) bytes: u64,
    /// Its last change in microseconds since 2000-01-01; of a directory, the last one of its files.
    pub(crate) modified: i64,
}

/// Looks everywhere, and once more if anything was found: only what both looks report is an orphan.
///
/// The second look covers what began and ended around the first: a transaction whose file was listed has a row by
/// then, or has ended and removed its file, or is old enough to be known as running.
pub(crate) fn find() -> Result<Vec<Orphan>> {
    let mut orphans = look()?;
    if !orphans.is_empty() {
        proc::sleep_ms(SECOND_LOOK_MS);
        pgrx::check_for_interrupts!();
        let again: HashSet<PathBuf> = look()?.into_iter().map(|orphan| orphan.path).collect();
        orphans.retain(|orphan| again.contains(&orphan.path));
    }
    orphans.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(orphans)
}

fn look() -> Result<Vec<Orphan>> {
    let mut orphans = Vec::new();
    let directories = database_directories()?;
    let known = database::all_known();
    for found in &directories {
        if !known.iter().any(|known| known.oid == found.database) {
            orphans.extend(directory_orphan(found));
        }
    }
    for database in known.iter().filter(|database| database.is_finished) {
        let own: Vec<&DatabaseDirectory> = directories
            .iter()
            .filter(|found| found.database == database.oid)
            .collect();
        orphans.extend(in_database(database, &own)?);
    }
    orphans.extend(shared_orphans()?);
    Ok(orphans)
}

/// A directory named like a database.
struct DatabaseDirectory {
    tablespace: Oid,
    database: Oid,
    path: PathBuf,
}

/// Every directory with a number for a name, where databases have theirs.
fn database_directories() -> Result<Vec<DatabaseDirectory>> {
    let mut found = Vec::new();
    for tablespace in directory::tablespaces()? {
        let Some(parent) = database_directory(Oid::from(1), tablespace)
            .parent()
            .map(Path::to_path_buf)
        else {
            continue;
        };
        // A tablespace that nothing was put into has no directory of this version.
        let Ok(entries) = fs::read_dir(&parent) else {
            continue;
        };
        for entry in entries.flatten() {
            pgrx::check_for_interrupts!();
            let number = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<u32>().ok());
            if let (Some(number), true) = (number, entry.path().is_dir()) {
                found.push(DatabaseDirectory {
                    tablespace,
                    database: Oid::from(number),
                    path: entry.path(),
                });
            }
        }
    }
    Ok(found)
}

/// A whole directory as one orphan; None if it vanishes while we look.
fn directory_orphan(found: &DatabaseDirectory) -> Option<Orphan> {
    let own = fs::metadata(&found.path).ok()?;
    let mut orphan = orphan(found, found.path.clone(), &own);
    orphan.bytes = 0;
    for entry in fs::read_dir(&found.path).ok()?.flatten() {
        if let Ok(metadata) = entry.metadata() {
            orphan.bytes += metadata.len();
            orphan.modified = orphan.modified.max(modified(&metadata));
        }
    }
    Some(orphan)
}

fn orphan(found: &DatabaseDirectory, path: PathBuf, metadata: &Metadata) -> Orphan {
    Orphan {
        tablespace: found.tablespace,
        database: found.database,
        path,
        bytes: metadata.len(),
        modified: modified(metadata),
    }
}

fn modified(metadata: &Metadata) -> i64 {
    (metadata.mtime() - POSTGRES_EPOCH) * 1_000_000 + metadata.mtime_nsec() / 1000
}

/// A relation file, by what it must have an owner for.
struct RelationFile {
    number: u32,
    temporary: bool,
    orphan: Orphan,
}

/// The relation files of a directory that are not empty.
fn relation_files(found: &DatabaseDirectory) -> Vec<RelationFile> {
    let Ok(entries) = fs::read_dir(&found.path) else {
        return Vec::new();
    };
    let mut files = Vec::new();
    for entry in entries.flatten() {
        let file_name = entry.file_name();
        let Some(file_name) = file_name.to_str() else {
            continue;
        };
        let Some(number) = name::file_number(file_name) else {
            continue;
        };
        match entry.metadata() {
            Ok(metadata) if metadata.is_file() && metadata.len() > 0 => files.push(RelationFile {
                number,
                temporary: name::is_temporary(file_name),
                orphan: orphan(found, entry.path(), &metadata),
            }),
            _ => {}
        }
    }
    files
}

/// The orphans in the directories of one finished database.
fn in_database(database: &KnownDatabase, directories: &[&DatabaseDirectory]) -> Result<Vec<Orphan>> {
    // Before anything else: a transaction that begins later writes its files later.
    let oldest_transaction = activity::oldest_transaction_in(database.oid);
    let files: Vec<RelationFile> = directories
        .iter()
        .flat_map(|found| relation_files(found))
        .collect();
    // Nobody may drop or move the database while its pg_class is read; if somebody is about to, leave it out.
    if !lock::try_lock_database(database.oid, LockMode::AccessShare) {
        return Ok(Vec::new());
    }
    // It may have been dropped or moved between the list and the lock.
    if database::find(database.oid).is_none_or(|now| now.tablespace != database.tablespace || now.is_invalid)
    {
        return Ok(Vec::new());
    }
    let owned = owned_files(database)?;
    let is_owned = |file: &RelationFile| {
        let tablespace = file.orphan.tablespace.to_u32();
        owned.contains(&(tablespace, file.number, file.temporary))
    };
    let may_be_running =
        |file: &RelationFile| oldest_transaction.is_some_and(|begun| file.orphan.modified >= begun);
    let orphans = files
        .into_iter()
        .filter(|file| !is_owned(file) && !may_be_running(file));
    Ok(orphans.map(|file| file.orphan).collect())
}

/// What pg_class of a database owns: (tablespace, file number, temporary).
fn owned_files(database: &KnownDatabase) -> Result<HashSet<(u32, u32, bool)>> {
    let mut owned = HashSet::new();
    let pg_class = Oid::from(PG_CLASS);
    let directory = database_directory(database.oid, database.tablespace);
    lock::lock_relation(database.oid, pg_class, LockMode::AccessShare);
    let corrupt = |block, problem| Error::CorruptCatalog {
        path: directory.clone(),
        block,
        problem,
    };
    let number =
        relmap::file_number(&directory, pg_class).ok_or_else(|| corrupt(0, "pg_class has no file number"))?;
    let locator = RelationLocator {
        tablespace: database.tablespace,
        database: database.oid,
        number,
    };
    let reader = PageReader::new(locator);
    let mut buffer = PageBuffer::new(1);
    for block in 0..block_count(&directory, number) {
        pgrx::check_for_interrupts!();
        reader.read(block, buffer.page_mut(0));
        for tuple in heap::tuples(buffer.page(0)).map_err(|problem| corrupt(block, problem))? {
            if !heap::may_be_live(&tuple, &ServerCommitLog) {
                continue;
            }
            let row = tuple.class_row().map_err(|problem| corrupt(block, problem))?;
            if !row.has_storage() || row.tablespace == PG_GLOBAL {
                continue;
            }
            let tablespace = if row.tablespace == 0 {
                database.tablespace.to_u32()
            } else {
                row.tablespace
            };
            let number = match row.file_number {
                0 => relmap::file_number(&directory, Oid::from(row.oid)).unwrap_or(0),
                number => number,
            };
            owned.insert((tablespace, number, row.persistence == b't'));
        }
    }
    lock::unlock_relation(database.oid, pg_class, LockMode::AccessShare);
    Ok(owned)
}

/// Whole blocks of a main fork, from the sizes of its segment files. Under the relation's lock the file can only grow.
fn block_count(directory: &Path, number: u32) -> u32 {
    let mut blocks = 0;
    for segment in 0.. {
        let path = segment_path(directory, number, block::Fork::Main, segment);
        let Ok(metadata) = fs::metadata(path) else { break };
        let in_segment = (metadata.len() / BLOCK_SIZE as u64) as u32;
        blocks += in_segment;
        if in_segment < block::SEGMENT_BLOCKS {
            break;
        }
    }
    blocks
}

/// Files in `global` that no shared catalog has.
fn shared_orphans() -> Result<Vec<Orphan>> {
    let global = DatabaseDirectory {
        tablespace: Oid::from(PG_GLOBAL),
        database: Oid::INVALID,
        path: PathBuf::from("global"),
    };
    let oldest_transaction = activity::oldest_transaction_in(Oid::INVALID);
    let files = relation_files(&global);
    let owned = spi::shared_file_numbers();
    let orphans = files.into_iter().filter(|file| {
        !owned.contains(&file.number) && oldest_transaction.is_none_or(|begun| file.orphan.modified < begun)
    });
    Ok(orphans.map(|file| file.orphan).collect())
}
