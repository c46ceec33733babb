//! blockwise: a PostgreSQL extension for the bulk work of the storage layer.
//!
//! Data flows one way: `api` (the SQL surface) calls a feature (`clone`, …), features are written against the safe
//! types of `storage`, and `storage` calls the backend, through `compat` where versions differ. `unsafe` lives in
//! `storage`, `compat` and `ffi` only. The README has the architecture and the invariants.

#[cfg(not(panic = "unwind"))]
compile_error!("blockwise must be built with panic = \"unwind\": errors of the backend unwind the stack");

mod api;
mod clone;
mod compat;
mod error;
mod fault;
mod ffi;
mod orphans;
mod progress;
mod settings;
mod storage;

use pgrx::prelude::*;

pg_module_magic!(name, version);

extension_sql_file!("../sql/clone.sql", name = "clone");
extension_sql_file!(
    "../sql/progress.sql",
    name = "progress",
    requires = [api::progress::progress_entries]
);
extension_sql_file!("../sql/grants.sql", name = "grants", finalize);

storage::call::sql_entry_point!(
    blockwise_clone_database,
    pg_finfo_blockwise_clone_database,
    api::clone::clone_database
);

/// Runs when the library is loaded into a backend.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    if let Err(error) = storage::server::check_version() {
        error.raise();
    }
    settings::register();
}

#[cfg(any(test, feature = "pg_test"))]
mod in_server;

#[cfg(test)]
#[path = "../pg_test/pgrx.rs"]
pub mod pg_test;
