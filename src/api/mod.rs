//! The SQL surface: one file a feature. Each parses arguments, checks rights, calls one function of a feature, and
//! shapes rows.
#![deny(unsafe_code)]

pub(crate) mod clone;
pub(crate) mod orphans;
pub(crate) mod progress;
