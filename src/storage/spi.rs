//! Statements on the extension's own tables, with the rights of its owner.

use super::role::AsSuperuser;
use pgrx::datum::DatumWithOid;
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;
use pgrx::prelude::*;
use std::collections::HashSet;
use std::ffi::CStr;

/// Runs one data-changing statement. Names in it must be qualified.
pub(crate) fn execute(statement: &str, arguments: &[DatumWithOid<'_>]) {
    let _identity = AsSuperuser::new();
    if let Err(cause) = Spi::run_with_args(statement, arguments) {
        // SPI's own return codes: not reachable by data, only by a broken statement in this library.
        unreachable!("statement on the extension's own table failed: {cause}");
    }
}

/// Runs one query for a single yes or no; no row is no.
pub(crate) fn query_bool(statement: &str, arguments: &[DatumWithOid<'_>]) -> bool {
    let _identity = AsSuperuser::new();
    matches!(
        Spi::get_one_with_args::<bool>(statement, arguments),
        Ok(Some(true))
    )
}

/// The file numbers of the shared relations, as the current database's catalog has them.
pub(crate) fn shared_file_numbers() -> HashSet<u32> {
    let query = "SELECT pg_catalog.pg_relation_filenode(c.oid) FROM pg_catalog.pg_class c \
                 WHERE c.reltablespace OPERATOR(pg_catalog.=) 1664::pg_catalog.oid";
    let numbers = Spi::connect(|client| {
        let mut numbers = HashSet::new();
        for row in client.select(query, None, &[])? {
            numbers.extend(row.get::<Oid>(1)?.map(Oid::to_u32));
        }
        Ok::<_, spi::Error>(numbers)
    });
    numbers.unwrap_or_else(|cause| unreachable!("query of the extension failed: {cause}"))
}

/// Whether the extension's schema has this table. Two lookups in caches, cheaper than a query.
pub(crate) fn own_table_exists(name: &CStr) -> bool {
    // SAFETY: catalog lookups; both return InvalidOid for what does not exist.
    let table = unsafe {
        let schema = pg_sys::get_namespace_oid(c"blockwise".as_ptr(), true);
        pg_sys::get_relname_relid(name.as_ptr(), schema)
    };
    table != pg_sys::InvalidOid
}

/// An OID argument.
pub(crate) fn oid(value: Oid) -> DatumWithOid<'static> {
    value.into()
}
