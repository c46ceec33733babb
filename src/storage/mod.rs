//! Safe types over the backend: the only folder, beside `compat` and `ffi.rs`, that may say `unsafe`.
//!
//! Each file wraps one concept of the storage layer under PostgreSQL's own name for it. Features are written
//! against these types and carry `#![deny(unsafe_code)]`.

pub(crate) mod activity;
pub(crate) mod block;
pub(crate) mod buffers;
pub(crate) mod call;
pub(crate) mod copier;
pub(crate) mod database;
pub(crate) mod directory;
pub(crate) mod exit;
pub(crate) mod files;
pub(crate) mod guard;
pub(crate) mod heap;
pub(crate) mod locale;
pub(crate) mod locator;
pub(crate) mod lock;
pub(crate) mod page;
pub(crate) mod proc;
pub(crate) mod reader;
pub(crate) mod relmap;
pub(crate) mod role;
pub(crate) mod server;
pub(crate) mod spi;
pub(crate) mod sync;
pub(crate) mod tablespace;
pub(crate) mod wal;
pub(crate) mod xact;
