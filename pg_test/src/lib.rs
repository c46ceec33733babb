//! The harness: real PostgreSQL servers for tests, demo and bench.
//!
//! An [`Installation`] names the server programs, a [`ClusterBuilder`] makes a [`Cluster`] of its own in the
//! temporary folder, a [`Session`] talks to it over the Unix socket. Around them are the checks that a clone has to
//! pass: [`Fingerprint`], [`ForkMaps`], [`checks::amcheck`], [`checks::checksums`], [`orphans::unowned_files`] and the
//! scan of the server log that every stop and crash goes through ([`LogRules`]).
//!
//! ```no_run
//! # fn main() -> pg_test::Result<()> {
//! use pg_test::{ClusterBuilder, Fingerprint, Installation, Source};
//! let cluster = ClusterBuilder::new(&Installation::from_env()).for_tests().start()?;
//! Source::new().build(&cluster, "shop")?;
//! cluster.session("postgres")?.batch("CREATE DATABASE copy TEMPLATE shop")?;
//! Fingerprint::of(&cluster, "shop")?.expect_equal(&Fingerprint::of(&cluster, "copy")?)?;
//! cluster.check_log()?;
//! # Ok(()) }
//! ```
//!
//! Every server program runs as user `postgres` when the caller is root (a server refuses to run as root), and as
//! the caller otherwise. Servers listen on a Unix socket only, so port numbers never collide.

pub mod background;
pub mod backup;
pub mod checks;
mod cluster;
mod config;
mod error;
mod fingerprint;
mod initdb;
mod installation;
mod log;
mod maps;
mod names;
pub mod orphans;
pub mod process;
mod session;
mod small_disk;
mod source;

pub use background::Running;
pub use cluster::{Cluster, StopMode};
pub use config::ClusterBuilder;
pub use error::{Error, Result, SqlError, SqlFields, SqlResult};
pub use fingerprint::Fingerprint;
pub use installation::Installation;
pub use log::LogRules;
pub use maps::ForkMaps;
pub use names::{identifier, literal};
pub use session::{FromText, Notice, Rows, Session};
pub use small_disk::{DiskKind, SmallDisk};
pub use source::Source;
