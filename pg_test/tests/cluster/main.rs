//! The cluster tests: each starts a server of its own, does to it what happens in the field, and looks at what is
//! left. Run them by `cargo xtask test`, which installs the extension (with its fault points) and names the server.

mod harness;
mod support;
