//! Which relations a source has, read raw from the pages of its pg_class.
//!
//! Relcache and syscache know only the database that the session is connected to, and a heap scan could prune the
//! other database's rows by the wrong horizon. So the pages of pg_class are read from its files, after its dirty
//! buffers have been written out, and decoded here. Chosen by the catalog, not by the directory: what a crash left
//! behind in the source does not travel.
#![deny(unsafe_code)]

use crate::error::{Error, Result};
use crate::storage::block::{Fork, SEGMENT_BLOCKS};
use crate::storage::files::SourceSegment;
use crate::storage::heap::{self, ClassRow, ServerCommitLog};
use crate::storage::page::PageBuffer;
use crate::storage::reader;
use crate::storage::relmap;
use pgrx::pg_sys::Oid;
use std::path::Path;

/// RelationRelationId: pg_class itself.
const PG_CLASS: u32 = 1259;
/// GLOBALTABLESPACE_OID: where shared catalogs live.
const GLOBAL_TABLESPACE: u32 = 1664;
/// Pages read at once.
const BATCH_PAGES: usize = 32;

/// A relation to copy. 16 bytes a relation are all the memory that grows with a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceRelation {
    /// Its OID.
    pub(crate) oid: u32,
    /// Its file number.
    pub(crate) file_number: u32,
    /// Its tablespace, 0 for the database's default.
    pub(crate) tablespace: u32,
    /// Whether its changes are logged.
    pub(crate) permanent: bool,
}

/// Reads the relations of the database whose default directory is given.
///
/// Precondition: nobody is connected to it, and its dirty buffers have been written. `each` is called a few times a
/// megabyte.
pub(crate) fn read(directory: &Path, each: &mut dyn FnMut() -> Result<()>) -> Result<Vec<SourceRelation>> {
    let number = mapped(directory, PG_CLASS)?;
    let mut relations = Vec::new();
    let mut buffer = PageBuffer::new(BATCH_PAGES);
    let mut segment = 0;
    while let Some(source) = SourceSegment::open(directory, number, Fork::Main, segment)? {
        let mut block = 0;
        loop {
            each()?;
            let count = reader::read_verified(&source, PG_CLASS, segment, block, &mut buffer)?;
            for index in 0..count {
                collect(buffer.page(index), &mut relations).map_err(|problem| Error::CorruptCatalog {
                    path: source.path().to_path_buf(),
                    block: block + index as u32,
                    problem,
                })?;
            }
            block += count as u32;
            if count < BATCH_PAGES {
                break;
            }
        }
        if block < SEGMENT_BLOCKS {
            break;
        }
        segment += 1;
    }
    resolve_mapped(directory, &mut relations)?;
    Ok(relations)
}

/// Adds the relations of one page.
fn collect(page: &[u8], relations: &mut Vec<SourceRelation>) -> std::result::Result<(), heap::Problem> {
    for tuple in heap::tuples(page)? {
        if !heap::is_committed(&tuple, &ServerCommitLog) {
            continue;
        }
        let row = tuple.class_row()?;
        if is_copied(&row) {
            relations.push(SourceRelation {
                oid: row.oid,
                file_number: row.file_number,
                tablespace: row.tablespace,
                permanent: row.persistence == b'p',
            });
        }
    }
    Ok(())
}

/// Whether a relation has files that belong into the clone: no shared catalogs, nothing without storage, and no
/// temporary relations, whose rows a crash may have left behind without files.
fn is_copied(row: &ClassRow) -> bool {
    row.tablespace != GLOBAL_TABLESPACE && row.has_storage() && row.persistence != b't'
}

/// Looks the file numbers of mapped catalogs up: pg_class says 0 for them.
fn resolve_mapped(directory: &Path, relations: &mut [SourceRelation]) -> Result<()> {
    for relation in relations.iter_mut().filter(|relation| relation.file_number == 0) {
        relation.file_number = mapped(directory, relation.oid)?;
    }
    Ok(())
}

fn mapped(directory: &Path, relation: u32) -> Result<u32> {
    relmap::file_number(directory, Oid::from(relation)).ok_or_else(|| Error::CorruptCatalog {
        path: directory.join("pg_filenode.map"),
        block: 0,
        problem: "a mapped catalog has no file number",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: u8, persistence: u8, tablespace: u32) -> ClassRow {
        ClassRow {
            oid: 1,
            file_number: 1,
            tablespace,
            kind,
            persistence,
        }
    }

    #[test]
    fn what_travels() {
        assert!(is_copied(&row(b'r', b'p', 0)));
        assert!(is_copied(&row(b'S', b'u', 16500)));
        assert!(!is_copied(&row(b'r', b't', 0)), "temporary");
        assert!(!is_copied(&row(b'v', b'p', 0)), "a view has no storage");
        assert!(
            !is_copied(&row(b'p', b'p', 0)),
            "a partitioned table has no storage"
        );
        assert!(!is_copied(&row(b'r', b'p', GLOBAL_TABLESPACE)), "shared");
    }
}
