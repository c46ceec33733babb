//! Installing the extension as a user would have it.

use crate::cache::Cache;
use crate::postgres::Server;
use crate::user::Privilege;
use crate::{exec, repo};
use anyhow::Result;

/// Builds the extension optimised, without its fault points, and installs it into the server. The caller holds the
/// lock `installed-extension`.
pub(super) fn install(cache: &Cache, server: &Server) -> Result<()> {
    let root = repo::root()?;
    let mut cargo = exec::command("cargo");
    cargo.current_dir(&root).env("PGRX_HOME", &server.pgrx_home);
    cargo.env("CARGO_TARGET_DIR", repo::target_dir(&root, cache)?);
    cargo
        .args(["pgrx", "install", "--release", "--pg-config"])
        .arg(&server.pg_config);
    cargo.args(["--no-default-features", "--features", &server.feature()]);
    if server.is_packaged() && Privilege::detect() == Privilege::Sudo {
        cargo.arg("--sudo");
    }
    let what = format!(
        "building blockwise, optimised, and installing it into PostgreSQL {}",
        server.label()
    );
    exec::step(&what, &mut cargo, &cache.log("bench-install")?)
}
