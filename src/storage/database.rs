//! Rows of pg_database: looked up, claimed, published, removed.

use super::role::c_name;
use crate::compat;
use crate::error::{Error, Result};
use crate::fault;
use crate::ffi;
use pgrx::pg_sys;
use pgrx::pg_sys::{Datum, Oid};
use pgrx::prelude::*;
use std::ffi::CStr;

/// The connection limit that marks a database as invalid (DATCONNLIMIT_INVALID_DB).
const INVALID_DATABASE: i32 = -2;

/// What a clone needs to know of a database.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    /// Its OID.
    pub(crate) oid: Oid,
    /// Its name.
    pub(crate) name: String,
    /// Its default tablespace.
    pub(crate) tablespace: Oid,
    /// Whether anybody with CREATEDB may copy it.
    pub(crate) is_template: bool,
    /// Whether it is the remains of something unfinished (`datconnlimit = -2`).
    pub(crate) is_invalid: bool,
    /// datlocprovider.
    pub(crate) provider: u8,
    /// LC_COLLATE.
    pub(crate) collate: String,
    /// LC_CTYPE.
    pub(crate) ctype: String,
    /// The ICU or builtin locale.
    pub(crate) locale: Option<String>,
    /// The collation version that it was built with.
    pub(crate) collation_version: Option<String>,
}

/// What the row of an unfinished clone is made of; everything else is the source's.
pub(crate) struct Claim<'a> {
    /// The source, whose row is the pattern.
    pub(crate) source: Oid,
    /// The clone's name.
    pub(crate) name: &'a str,
    /// Its owner.
    pub(crate) owner: Oid,
    /// Its default tablespace.
    pub(crate) tablespace: Oid,
    /// A collation version to record instead of the source's.
    pub(crate) collation_version: Option<String>,
}

/// What publishing sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Publication {
    /// datconnlimit.
    pub(crate) connection_limit: i32,
    /// datallowconn.
    pub(crate) allow_connections: bool,
    /// datistemplate.
    pub(crate) is_template: bool,
}

/// A tuple of pg_database out of the syscache, released when dropped.
///
/// After an error the resource owner has released it; dropping it then would release it twice.
struct CachedRow(pg_sys::HeapTuple);

impl CachedRow {
    fn find(database: Oid) -> Option<CachedRow> {
        // SAFETY: a syscache lookup by OID.
        let tuple = unsafe {
            pg_sys::SearchSysCache1(
                pg_sys::SysCacheIdentifier::DATABASEOID as i32,
                Datum::from(database),
            )
        };
        (!tuple.is_null()).then(|| CachedRow(tuple))
    }

    fn form(&self) -> &pg_sys::FormData_pg_database {
        // SAFETY: a tuple of pg_database starts with this structure; it lives as long as `self`.
        unsafe { &*pg_sys::GETSTRUCT(self.0).cast::<pg_sys::FormData_pg_database>() }
    }

    fn text(&self, attribute: u32) -> Option<String> {
        let mut is_null = false;
        // SAFETY: the attribute is one of pg_database's text columns.
        unsafe {
            let datum = pg_sys::SysCacheGetAttr(
                pg_sys::SysCacheIdentifier::DATABASEOID as i32,
                self.0,
                attribute as pg_sys::AttrNumber,
                &mut is_null,
            );
            String::from_datum(datum, is_null)
        }
    }
}

impl Drop for CachedRow {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: found by SearchSysCache1 and not released yet; while an error unwinds, its abort does it.
            unsafe { pg_sys::ReleaseSysCache(self.0) };
        }
    }
}

/// The OID of the database of this name.
pub(crate) fn oid_by_name(name: &str) -> Option<Oid> {
    // SAFETY: a catalog scan that returns InvalidOid for a name that does not exist.
    let oid = unsafe { pg_sys::get_database_oid(c_name(name).as_ptr(), true) };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// The name of a database.
pub(crate) fn name_of(database: Oid) -> Option<String> {
    CachedRow::find(database).map(|row| name(row.form()))
}

fn name(form: &pg_sys::FormData_pg_database) -> String {
    // SAFETY: a name is NUL-terminated within its 64 bytes.
    unsafe { CStr::from_ptr(form.datname.data.as_ptr()) }
        .to_string_lossy()
        .into_owned()
}

/// The database with this OID, as committed now.
pub(crate) fn find(database: Oid) -> Option<Database> {
    let row = CachedRow::find(database)?;
    let form = row.form();
    Some(Database {
        oid: form.oid,
        name: name(form),
        tablespace: form.dattablespace,
        is_template: form.datistemplate,
        is_invalid: form.datconnlimit == INVALID_DATABASE,
        provider: form.datlocprovider as u8,
        collate: row.text(pg_sys::Anum_pg_database_datcollate).unwrap_or_default(),
        ctype: row.text(pg_sys::Anum_pg_database_datctype).unwrap_or_default(),
        locale: row.text(compat::ANUM_DATABASE_LOCALE),
        collation_version: row.text(pg_sys::Anum_pg_database_datcollversion),
    })
}

/// A database that has a row, committed or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownDatabase {
    /// Its OID.
    pub(crate) oid: Oid,
    /// Its default tablespace.
    pub(crate) tablespace: Oid,
    /// Whether the row is committed, not being deleted, and not marked invalid.
    pub(crate) is_finished: bool,
}

/// Every database that has a row, those of running CREATE and DROP DATABASE commands included.
pub(crate) fn all_known() -> Vec<KnownDatabase> {
    let mut found = Vec::new();
    // SAFETY: a plain sequential scan of an open shared catalog with a dirty snapshot of this frame, which the scan
    // does not outlive; the snapshot's xmin and xmax say whether the last row belongs to a running transaction.
    unsafe {
        let catalog = pg_sys::table_open(pg_sys::DatabaseRelationId, pg_sys::AccessShareLock as i32);
        let mut snapshot = pg_sys::SnapshotData {
            snapshot_type: pg_sys::SnapshotType::SNAPSHOT_DIRTY,
            ..Default::default()
        };
        let scan = pg_sys::systable_beginscan(
            catalog,
            pg_sys::InvalidOid,
            false,
            &mut snapshot,
            0,
            std::ptr::null_mut(),
        );
        loop {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            let form = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_database>();
            let running = snapshot.xmin != pg_sys::InvalidTransactionId
                || snapshot.xmax != pg_sys::InvalidTransactionId;
            found.push(KnownDatabase {
                oid: form.oid,
                tablespace: form.dattablespace,
                is_finished: !running && form.datconnlimit != INVALID_DATABASE,
            });
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(catalog, pg_sys::AccessShareLock as i32);
    }
    found
}

/// Whether a row with this OID exists and is marked invalid.
pub(crate) fn is_unfinished(database: Oid) -> bool {
    CachedRow::find(database).is_some_and(|row| row.form().datconnlimit == INVALID_DATABASE)
}

/// pg_database, open and locked until the end of the transaction.
struct PgDatabase(pg_sys::Relation);

impl PgDatabase {
    fn open() -> PgDatabase {
        // SAFETY: opens a shared catalog in the mode that every change of it takes.
        PgDatabase(unsafe { pg_sys::table_open(pg_sys::DatabaseRelationId, pg_sys::RowExclusiveLock as i32) })
    }

    fn close(self) {
        // SAFETY: opened by open(); the lock stays until the end of the transaction.
        unsafe { pg_sys::table_close(self.0, pg_sys::NoLock as i32) };
    }

    /// A copy of the row with some columns replaced.
    fn modified(&self, tuple: pg_sys::HeapTuple, changes: &[(u32, Option<Datum>)]) -> pg_sys::HeapTuple {
        // SAFETY: three arrays with one entry a column of pg_database, as heap_modify_tuple wants them.
        unsafe {
            let columns = (*(*self.0).rd_att).natts as usize;
            let mut values = vec![Datum::from(0); columns];
            let mut nulls = vec![false; columns];
            let mut replace = vec![false; columns];
            for (attribute, value) in changes {
                let index = *attribute as usize - 1;
                replace[index] = true;
                nulls[index] = value.is_none();
                values[index] = value.unwrap_or(Datum::from(0));
            }
            pg_sys::heap_modify_tuple(
                tuple,
                (*self.0).rd_att,
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
                replace.as_mut_ptr(),
            )
        }
    }
}

/// Chooses an OID that no database has and for which no directory exists anywhere.
fn unused_oid(catalog: &PgDatabase, taken: impl Fn(Oid) -> Result<bool>) -> Result<Oid> {
    loop {
        // SAFETY: the catalog is open; the index and column are pg_database's own.
        let oid = unsafe {
            pg_sys::GetNewOidWithIndex(
                catalog.0,
                Oid::from(pg_sys::DatabaseOidIndexId),
                pg_sys::Anum_pg_database_oid as pg_sys::AttrNumber,
            )
        };
        if !taken(oid)? {
            return Ok(oid);
        }
    }
}

/// Inserts the row of an unfinished clone, with its owner's dependency. Returns its OID.
///
/// The row is the source's with another name, owner and tablespace; it is marked invalid, is no template (else it
/// could not be dropped) and allows no connections, and it has none of the source's privileges. `taken` says whether
/// files of an OID exist already.
pub(crate) fn insert_claim(claim: &Claim<'_>, taken: impl Fn(Oid) -> Result<bool>) -> Result<Oid> {
    let catalog = PgDatabase::open();
    let oid = unused_oid(&catalog, taken)?;
    let source = CachedRow::find(claim.source).ok_or_else(|| Error::UndefinedDatabase {
        name: claim.source.to_u32().to_string(),
    })?;
    // A name column takes exactly NAMEDATALEN bytes, padded with zeros.
    let mut padded = [0u8; pg_sys::NAMEDATALEN as usize];
    padded[..claim.name.len()].copy_from_slice(claim.name.as_bytes());
    let mut changes = vec![
        (pg_sys::Anum_pg_database_oid, Some(Datum::from(oid))),
        (
            pg_sys::Anum_pg_database_datname,
            Some(Datum::from(padded.as_mut_ptr())),
        ),
        (pg_sys::Anum_pg_database_datdba, Some(Datum::from(claim.owner))),
        (
            pg_sys::Anum_pg_database_dattablespace,
            Some(Datum::from(claim.tablespace)),
        ),
        (pg_sys::Anum_pg_database_datistemplate, Some(Datum::from(false))),
        (pg_sys::Anum_pg_database_datallowconn, Some(Datum::from(false))),
        (
            pg_sys::Anum_pg_database_datconnlimit,
            Some(Datum::from(INVALID_DATABASE)),
        ),
        (pg_sys::Anum_pg_database_datacl, None),
    ];
    if let Some(version) = &claim.collation_version {
        changes.push((
            pg_sys::Anum_pg_database_datcollversion,
            version.clone().into_datum(),
        ));
    }
    let tuple = catalog.modified(source.0, &changes);
    // SAFETY: a well-formed row for the open catalog; the rest registers what depends on it.
    unsafe {
        pg_sys::CatalogTupleInsert(catalog.0, tuple);
        pg_sys::recordDependencyOnOwner(pg_sys::DatabaseRelationId, oid, claim.owner);
        let hook = &raw const pg_sys::object_access_hook;
        if (*hook).is_some() {
            pg_sys::RunObjectPostCreateHook(pg_sys::DatabaseRelationId, oid, 0, false);
        }
    }
    drop(source);
    catalog.close();
    Ok(oid)
}

/// Makes an unfinished clone a database: the row as it is found, with our columns changed, and the dependencies of
/// the source's objects.
///
/// OWNER, GRANT, COMMENT and SET are accepted on an unfinished clone; what they did stays. datfrozenxid and
/// datminmxid are the source's of now.
pub(crate) fn publish(database: Oid, source: Oid, name: &str, publication: Publication) -> Result<()> {
    let vanished = || Error::CloneVanished {
        name: name.to_string(),
    };
    let catalog = PgDatabase::open();
    if lock_row(&catalog, database, IfBusy::Wait) != RowLock::Locked {
        return Err(vanished());
    }
    fault::point("publish.row_locked")?;
    let (frozen, minimum) = {
        let row = CachedRow::find(source).ok_or_else(|| Error::UndefinedDatabase {
            name: source.to_u32().to_string(),
        })?;
        (row.form().datfrozenxid, row.form().datminmxid)
    };
    // SAFETY: the locked copy is ours; its columns are fixed-length and not null, so that they are changed in place,
    // as ALTER DATABASE … RENAME does. The tuple lock keeps in-place updates of the row out until it is replaced.
    unsafe {
        let tuple = pg_sys::SearchSysCacheLockedCopy1(
            pg_sys::SysCacheIdentifier::DATABASEOID as i32,
            Datum::from(database),
        );
        if tuple.is_null() {
            return Err(vanished());
        }
        let mut at = (*tuple).t_self;
        let form = &mut *pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_database>();
        if form.datconnlimit != INVALID_DATABASE {
            return Err(vanished());
        }
        form.datconnlimit = publication.connection_limit;
        form.datallowconn = publication.allow_connections;
        form.datistemplate = publication.is_template;
        form.datfrozenxid = frozen;
        form.datminmxid = minimum;
        pg_sys::CatalogTupleUpdate(catalog.0, &mut at, tuple);
        pg_sys::UnlockTuple(catalog.0, &mut at, pg_sys::InplaceUpdateTupleLock as i32);
        pg_sys::copyTemplateDependencies(source, database);
    }
    fault::point("publish.row_updated")?;
    catalog.close();
    Ok(())
}

/// What to do when another transaction is changing the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IfBusy {
    /// Wait for its end.
    Wait,
    /// Leave the row alone: for the cleanup, which cannot be cancelled.
    Skip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowLock {
    Locked,
    Gone,
    Busy,
}

/// Locks the row, after whoever is changing it has ended.
///
/// A plain catalog update would fail with "tuple concurrently updated" when, say, an ALTER DATABASE … OWNER of an
/// open transaction commits first; a row lock waits for it and shows that the row must be read again.
fn lock_row(catalog: &PgDatabase, database: Oid, if_busy: IfBusy) -> RowLock {
    loop {
        pgrx::check_for_interrupts!();
        match try_lock_row(catalog, database, if_busy) {
            None => return RowLock::Gone,
            Some(pg_sys::TM_Result::TM_Ok | pg_sys::TM_Result::TM_SelfModified) => return RowLock::Locked,
            Some(pg_sys::TM_Result::TM_Deleted) => return RowLock::Gone,
            Some(pg_sys::TM_Result::TM_WouldBlock) => return RowLock::Busy,
            Some(_) => {}
        }
    }
}

fn try_lock_row(catalog: &PgDatabase, database: Oid, if_busy: IfBusy) -> Option<pg_sys::TM_Result::Type> {
    let policy = match if_busy {
        IfBusy::Wait => pg_sys::LockWaitPolicy::LockWaitBlock,
        IfBusy::Skip => pg_sys::LockWaitPolicy::LockWaitSkip,
    };
    let none = Datum::from(0);
    let key = Datum::from(database);
    // SAFETY: the row at hand is locked in its place; the copy is freed and the pin that the call returns released.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::DATABASEOID as i32;
        let tuple = pg_sys::SearchSysCacheCopy(cache, key, none, none, none);
        if tuple.is_null() {
            return None;
        }
        let mut buffer = 0;
        let mut failure = pg_sys::TM_FailureData::default();
        let result = pg_sys::heap_lock_tuple(
            catalog.0,
            tuple,
            pg_sys::GetCurrentCommandId(false),
            pg_sys::LockTupleMode::LockTupleExclusive,
            policy,
            false,
            &mut buffer,
            &mut failure,
        );
        if buffer != 0 {
            pg_sys::ReleaseBuffer(buffer);
        }
        pg_sys::heap_freetuple(tuple);
        pg_sys::AcceptInvalidationMessages();
        Some(result)
    }
}

/// Deletes the row of an unfinished clone, with everything shared that hangs on it. False if another transaction is
/// changing the row; nothing has happened then.
///
/// The caller holds the database object in AccessExclusive mode and has seen that the row is still unfinished.
pub(crate) fn delete_row(database: Oid) -> bool {
    let catalog = PgDatabase::open();
    let lock = lock_row(&catalog, database, IfBusy::Skip);
    if lock == RowLock::Locked {
        // SAFETY: the steps of DROP DATABASE up to the row, by OID.
        unsafe {
            pg_sys::DeleteSharedComments(database, pg_sys::DatabaseRelationId);
            pg_sys::DeleteSharedSecurityLabel(database, pg_sys::DatabaseRelationId);
            ffi::DropSetting(database, pg_sys::InvalidOid);
            pg_sys::dropDatabaseDependencies(database);
            pg_sys::pgstat_drop_database(database);
            let cache = pg_sys::SysCacheIdentifier::DATABASEOID as i32;
            let tuple = pg_sys::SearchSysCache1(cache, Datum::from(database));
            if !tuple.is_null() {
                pg_sys::CatalogTupleDelete(catalog.0, &raw mut (*tuple).t_self);
                pg_sys::ReleaseSysCache(tuple);
            }
        }
    }
    catalog.close();
    lock != RowLock::Busy
}

/// Drops a finished database as DROP DATABASE does, with its checks of rights and of sessions.
pub(crate) fn drop_by_name(name: &str) {
    // SAFETY: the backend's own routine. Called outside a transaction block, as `Procedure` has made sure.
    unsafe { pg_sys::dropdb(c_name(name).as_ptr(), false, false) };
}
