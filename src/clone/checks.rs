//! What CREATE DATABASE checks before it touches anything, in its order and with its SQLSTATEs.
#![deny(unsafe_code)]

use super::options::Options;
use super::replace;
use crate::error::{Error, Result};
use crate::storage::database::{self, Database};
use crate::storage::directory;
use crate::storage::locale::{self, Category};
use crate::storage::locator::database_directory;
use crate::storage::{role, server, tablespace};
use pgrx::pg_sys::Oid;

/// COLLPROVIDER_LIBC of pg_collation.h.
const PROVIDER_LIBC: u8 = b'c';

/// What the checks have found out.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The clone's owner.
    pub(crate) owner: Oid,
    /// Its default tablespace.
    pub(crate) tablespace: Oid,
    /// A collation version to record where the source has none.
    pub(crate) collation_version: Option<String>,
    /// The earlier clone of the target's name, which goes first.
    pub(crate) replaced: Option<Oid>,
}

/// Whether the caller may make databases at all, and give one to the owner asked for. Returns the owner.
pub(crate) fn check_caller(options: &Options) -> Result<Oid> {
    server::check_may_write(c"CALL blockwise.clone_database()");
    let owner = match &options.owner {
        Some(name) => role::by_name(&role::c_name(name)),
        None => role::current(),
    };
    if !role::may_create_databases() {
        return Err(Error::MayNotCreateDatabase);
    }
    role::check_may_give_to(owner);
    Ok(owner)
}

/// Whether the caller may copy this database, and whether it is one that can be copied.
pub(crate) fn check_may_copy(source: &Database) -> Result<()> {
    if source.is_invalid {
        return Err(Error::InvalidSource {
            name: source.name.clone(),
        });
    }
    if !source.is_template && !role::owns_database(source.oid) {
        return Err(Error::MayNotCopyDatabase {
            name: source.name.clone(),
        });
    }
    Ok(())
}

/// Everything else that can be known before the source is locked.
pub(crate) fn check(options: &Options, source: &Database) -> Result<Checked> {
    let owner = check_caller(options)?;
    check_may_copy(source)?;
    check_locales(source)?;
    let collation_version = check_collation_version(source)?;
    let tablespace = check_tablespace(options, source)?;
    let replaced = replace::check_name(options, source)?;
    Ok(Checked {
        owner,
        tablespace,
        collation_version,
        replaced,
    })
}

fn check_locales(source: &Database) -> Result<()> {
    for (category, name) in [
        (Category::Collate, &source.collate),
        (Category::Ctype, &source.ctype),
    ] {
        if !locale::exists(category, name) {
            return Err(Error::InvalidLocale {
                category: category.name(),
                name: name.clone(),
            });
        }
    }
    Ok(())
}

/// The source's collation version must be the library's. Returns the version to record if the source has none.
///
/// A source without a version stays without one: its indexes were built with a version that nobody knows. Only
/// template0, which by definition holds nothing that depends on a collation, gets the version of now, as in core.
fn check_collation_version(source: &Database) -> Result<Option<String>> {
    let name = match source.provider {
        PROVIDER_LIBC => source.collate.as_str(),
        _ => source.locale.as_deref().unwrap_or_default(),
    };
    let actual = locale::collation_version(source.provider, name);
    match (&source.collation_version, actual) {
        (Some(_), None) => Err(Error::NoCollationVersion {
            name: source.name.clone(),
        }),
        (Some(recorded), Some(actual)) if *recorded != actual => Err(Error::CollationMismatch {
            name: source.name.clone(),
            recorded: recorded.clone(),
            actual,
        }),
        (Some(_), Some(_)) => Ok(None),
        (None, actual) => Ok(actual.filter(|_| source.name == "template0")),
    }
}

/// The clone's default tablespace. One that the source already has relations in is refused: pg_class of the clone
/// would name the same place both as "default" and explicitly.
fn check_tablespace(options: &Options, source: &Database) -> Result<Oid> {
    let Some(name) = &options.tablespace else {
        return Ok(source.tablespace);
    };
    let wanted = tablespace::by_name(name);
    if !tablespace::may_create_in(wanted) {
        return Err(Error::MayNotUseTablespace { name: name.clone() });
    }
    if tablespace::is_global(wanted) {
        return Err(Error::GlobalTablespace);
    }
    if wanted != source.tablespace && directory::is_nonempty(&database_directory(source.oid, wanted))? {
        return Err(Error::TablespaceConflict {
            tablespace: name.clone(),
            source: source.name.clone(),
        });
    }
    Ok(wanted)
}

/// Whether files of this OID exist in any tablespace: then it is no OID for a new database.
pub(crate) fn has_files(oid: Oid) -> Result<bool> {
    Ok(!directory::directories_of(oid)?.is_empty())
}

/// Whether a database of this name exists.
pub(crate) fn existing(name: &str) -> Option<Oid> {
    database::oid_by_name(name)
}
