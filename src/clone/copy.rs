//! The copy: directories, relation map, and every relation of the source's catalog.
//!
//! Nothing here needs a transaction id or a snapshot, and none is held: a clone of hours holds vacuum back nowhere.
#![deny(unsafe_code)]

use super::relations::{self, SourceRelation};
use crate::error::Result;
use crate::fault;
use crate::progress::{Phase, Progress};
use crate::storage::copier::{Copied, Copier, DataPath, RelationCopy};
use crate::storage::database::Database;
use crate::storage::directory;
use crate::storage::files::ExternalFiles;
use crate::storage::locator::{RelationLocator, database_directory};
use crate::storage::wal::{self, Compression, CompressionGuard};
use crate::storage::{buffers, relmap, xact};
use pgrx::pg_sys::Oid;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files open at once: one that is read, one that is written, a directory.
const FILES_OPEN: u32 = 3;

/// What was copied.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Relations.
    pub(crate) relations: u64,
    /// Forks and blocks.
    pub(crate) copied: Copied,
    /// Dirty buffers of the source that were written out first.
    pub(crate) flushed: u64,
}

/// A clone in the making.
pub(crate) struct Job<'a> {
    /// Where from.
    pub(crate) source: &'a Database,
    /// Where to.
    pub(crate) target: Oid,
    /// The clone's default tablespace.
    pub(crate) tablespace: Oid,
    /// How page images are compressed.
    pub(crate) compression: Compression,
}

/// The two directories of one tablespace.
struct Directories {
    source: PathBuf,
    target: PathBuf,
}

/// Copies the source's files into the clone.
pub(crate) fn copy(job: &Job<'_>, progress: &mut Progress) -> Result<Totals> {
    xact::release_catalog_snapshot();
    debug_assert!(xact::holds_nothing_back());
    let source = database_directory(job.source.oid, job.source.tablespace);
    let target = database_directory(job.target, job.tablespace);
    let _files = ExternalFiles::reserve(FILES_OPEN)?;
    let _compression = CompressionGuard::new(job.compression);
    create_directory(job, &target)?;
    relmap::copy(&source, &target, job.target, job.tablespace);
    fault::point("relmap.after_copy")?;
    let flushed = flush_source(job, progress)?;
    let relations = relations::read(&source, &mut serve_interrupts)?;
    progress.set_totals(relations.len() as u64, source_bytes(job.source.oid)?);
    progress.enter(Phase::Copy);
    let totals = Totals {
        flushed,
        ..copy_relations(job, &relations, progress)?
    };
    fault::point("copy.end")?;
    Ok(totals)
}

fn serve_interrupts() -> Result<()> {
    pgrx::check_for_interrupts!();
    Ok(())
}

/// Makes the directory and the version file durable, and only then the record that promises them.
fn create_directory(job: &Job<'_>, target: &Path) -> Result<()> {
    directory::create(target)?;
    fault::point("directory.after_mkdir")?;
    relmap::reserve(target)?;
    directory::write_version_file(target)?;
    directory::sync_entries(target)?;
    if let Some(parent) = target.parent() {
        directory::sync_entries(parent)?;
    }
    wal::log_database_created(job.target, job.tablespace);
    fault::point("directory.after_record")
}

/// Writes the source's dirty buffers to its files, of all persistence levels.
fn flush_source(job: &Job<'_>, progress: &mut Progress) -> Result<u64> {
    progress.enter(Phase::Flush);
    buffers::write_out_database(job.source.oid, || {
        pgrx::check_for_interrupts!();
        fault::point("flush.buffer")
    })
}

/// What the source's directories hold, for progress only.
fn source_bytes(source: Oid) -> Result<u64> {
    let directories = directory::directories_of(source)?;
    let mut bytes = 0;
    for (_, path) in &directories {
        bytes += directory::file_bytes(path, &mut serve_interrupts)?;
    }
    Ok(bytes)
}

fn copy_relations(job: &Job<'_>, relations: &[SourceRelation], progress: &mut Progress) -> Result<Totals> {
    let mut totals = Totals::default();
    let mut copier = Copier::new(DataPath::ReadWrite);
    let mut tablespaces = BTreeMap::new();
    for relation in relations {
        fault::point("copy.relation")?;
        let from = if relation.tablespace == 0 {
            job.source.tablespace
        } else {
            Oid::from(relation.tablespace)
        };
        let to = if from == job.source.tablespace {
            job.tablespace
        } else {
            from
        };
        let directories = tablespaces
            .entry(from.to_u32())
            .or_insert_with(|| open_tablespace(job, from, to));
        let locator = RelationLocator {
            tablespace: to,
            database: job.target,
            number: relation.file_number,
        };
        let copy = RelationCopy {
            source: &directories.source,
            target: &directories.target,
            locator,
            relation: relation.oid,
            permanent: relation.permanent,
        };
        let copied = copier.copy_relation(&copy, &mut |bytes| {
            pgrx::check_for_interrupts!();
            progress.add_bytes(bytes);
            Ok(())
        })?;
        totals.relations += 1;
        totals.copied.forks += copied.forks;
        totals.copied.blocks += copied.blocks;
        progress.add_relation();
    }
    Ok(totals)
}

/// The directories of a tablespace; the clone's is made if it is not its default one. A DROP TABLESPACE since the
/// claim makes that fail cleanly.
fn open_tablespace(job: &Job<'_>, from: Oid, to: Oid) -> Directories {
    if to != job.tablespace {
        directory::create_in_tablespace(job.target, to);
    }
    Directories {
        source: database_directory(job.source.oid, from),
        target: database_directory(job.target, to),
    }
}
