//! The claim: the row of an unfinished clone, committed before there is a file.
//!
//! From its commit on, a crash leaves a row that names the directory: `datconnlimit = -2` lets nobody connect to it
//! or copy it, and plain DROP DATABASE removes row and files, on standbys too.
#![deny(unsafe_code)]

use super::checks::{self, Checked};
use super::options::Options;
use super::{cleanup, log};
use crate::error::{Error, Result};
use crate::fault;
use crate::storage::database::{self, Claim, Database};
use crate::storage::exit;
use crate::storage::guard::catch;
use crate::storage::lock::{LockMode, SessionDatabaseLock};
use crate::storage::xact::{Procedure, with_snapshot};
use pgrx::pg_sys::Oid;

/// A clone that has a row.
#[derive(Debug)]
pub(crate) struct Claimed {
    /// Its OID.
    pub(crate) database: Oid,
    lock: SessionDatabaseLock,
}

impl Claimed {
    /// Lets others at the database object.
    pub(crate) fn release(self) {
        self.lock.release();
    }
}

/// Inserts the row and commits it.
///
/// The session lock on the clone's own object comes before the commit: whoever wants to drop, rename or move the
/// unfinished clone waits for us. It is a weak one, so that ALTER DATABASE … OWNER, GRANT and the like work.
pub(crate) fn claim(
    procedure: &Procedure,
    options: &Options,
    checked: &Checked,
    source: &Database,
    on_claim: impl FnOnce(Oid),
) -> Result<Claimed> {
    fault::point("claim.before_insert")?;
    let claim = Claim {
        source: source.oid,
        name: &options.target,
        owner: checked.owner,
        tablespace: checked.tablespace,
        collation_version: checked.collation_version.clone(),
    };
    let inserted = catch(|| {
        with_snapshot(|| {
            let database = database::insert_claim(&claim, checks::has_files)?;
            log::begin(database, &options.target, source.oid, &source.name);
            Ok(database)
        })
    });
    let database = inserted.or_else(|failure| {
        // Somebody else's claim of the name was committed since we looked. The transaction ends with the error.
        if failure.is_unique_violation() {
            return Err(Error::DuplicateDatabase {
                name: options.target.clone(),
            });
        }
        failure.rethrow()
    })?;
    let lock = SessionDatabaseLock::acquire(database, LockMode::AccessShare);
    fault::point("claim.before_commit")?;
    exit::arm(database, cleanup::after_fatal);
    on_claim(database);
    procedure.commit_synchronously();
    fault::point("claim.after_commit")?;
    Ok(Claimed { database, lock })
}
