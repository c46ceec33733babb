//! The only place that knows PostgreSQL's major versions.
//!
//! One file a major, each with the same set of items under neutral names; this module re-exports the one that
//! the build was made for. Code elsewhere never asks which version it runs on.

#[cfg(not(feature = "pg15"))]
mod from16;
#[cfg(not(feature = "pg18"))]
mod until17;

#[cfg(feature = "pg15")]
mod pg15;
#[cfg(feature = "pg15")]
pub(crate) use pg15::*;

#[cfg(feature = "pg16")]
mod pg16;
#[cfg(feature = "pg16")]
pub(crate) use pg16::*;

#[cfg(feature = "pg17")]
mod pg17;
#[cfg(feature = "pg17")]
pub(crate) use pg17::*;

#[cfg(feature = "pg18")]
mod pg18;
#[cfg(feature = "pg18")]
pub(crate) use pg18::*;
