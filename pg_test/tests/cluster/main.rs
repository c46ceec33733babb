//! The cluster tests: each starts a server of its own, does to it what happens in the field, and looks at what is
//! left. Run them by `cargo xtask test`, which installs the extension (with its fault points) and names the server.

mod backups;
mod busy;
mod commits;
mod concurrency;
mod corruption;
mod crash;
mod disk;
mod faults;
mod harness;
mod identity;
mod kinds;
mod names;
mod options;
mod orphaned;
mod progress;
mod rights;
mod scale;
mod segments;
mod settings;
mod support;
mod transactions;
mod wal;
