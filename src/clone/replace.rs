//! `if_exists => 'replace'`: the caller's own earlier clone of the name is dropped first.
#![deny(unsafe_code)]

use super::checks::existing;
use super::log;
use super::options::Options;
use crate::error::{Error, Result};
use crate::storage::database::{self, Database};
use crate::storage::lock::{self, LockMode};
use crate::storage::role;
use crate::storage::xact::Procedure;
use pgrx::pg_sys::Oid;

/// Whether the target's name is free, or taken by something that may be replaced. Returns what goes.
pub(crate) fn check_name(options: &Options, source: &Database) -> Result<Option<Oid>> {
    let name = || options.target.clone();
    let Some(found) = existing(&options.target) else {
        return Ok(None);
    };
    if !options.replace {
        return Err(Error::DuplicateDatabase { name: name() });
    }
    if found == source.oid {
        return Err(Error::SourceIsTarget { name: name() });
    }
    check_own_clone(found, &options.target)?;
    Ok(Some(found))
}

fn check_own_clone(database: Oid, name: &str) -> Result<()> {
    if role::owns_database(database) && log::is_clone_of_caller(database, name) {
        return Ok(());
    }
    Err(Error::NotOwnClone {
        name: name.to_string(),
    })
}

/// Drops what `check_name` found, in a transaction of its own, with DROP DATABASE's own checks.
///
/// DROP DATABASE goes by name, and the name could have gone to another database since. So the database itself is
/// locked first, by OID, in the mode that a rename needs; what it is called then, it is called until the end.
pub(crate) fn drop_replaced(procedure: &Procedure, options: &Options, replaced: Oid) -> Result<()> {
    lock::lock_database(replaced, LockMode::AccessExclusive);
    if database::name_of(replaced).as_deref() != Some(&options.target) {
        return Err(Error::DuplicateDatabase {
            name: options.target.clone(),
        });
    }
    check_own_clone(replaced, &options.target)?;
    log::forget(replaced);
    database::drop_by_name(&options.target);
    procedure.commit_synchronously();
    Ok(())
}
