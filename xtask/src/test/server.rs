//! The stages that run on a real server: pgrx's tests, the golden files, the cluster tests.

use super::report::Report;
use super::{Context, Server, mark, regress};
use crate::cache::make_readable_dir;
use crate::exec::{capture, say};
use crate::user::{Privilege, SERVER_USER};
use anyhow::{Context as _, Result};
use std::env;
use std::path::{Path, PathBuf};

/// All stages on one server. With a filter only the cluster tests run, and what they need.
pub(super) fn stages(context: &Context, report: &mut Report, server: &Server) {
    let tag = format!("{}{}", server.major, mark(server.assertions));
    let name = |stage: &str| format!("{stage} {tag}");
    if context.filter.is_none() {
        report.stage(&name("pgrx"), || pgrx_tests(context, server));
    }
    if !report.stage(&name("install"), || install(context, server)) {
        report.skip(&name("regress"), "the extension is not installed");
        report.skip(&name("cluster"), "the extension is not installed");
        return;
    }
    if context.filter.is_none() {
        report.stage(&name("regress"), || regress::run(context, server));
    }
    report.stage(&name("cluster"), || cluster_tests(context, server));
}

/// The tests inside the server and those that need none, by cargo-pgrx.
fn pgrx_tests(context: &Context, server: &Server) -> Result<()> {
    let mut cargo = context.cargo(server);
    cargo
        .args(["pgrx", "test", &server.feature()])
        .args(context.features(server, "testing"));
    if env::var_os("USER").is_none() {
        // cargo-pgrx connects as the user that this variable names.
        cargo.env("USER", capture(crate::exec::command("id").arg("-un"))?.trim());
    }
    let privilege = Privilege::detect();
    if privilege == Privilege::Root || (privilege == Privilege::Sudo && server.is_packaged()) {
        let data = server_user_dir(context, privilege)?;
        cargo.args(["--runas", SERVER_USER, "--pgdata"]).arg(data);
    }
    context.step(&format!("running pgrx's tests on {}", server.label()), &mut cargo)
}

/// A directory of the servers' user for cargo-pgrx's data directories; its path must be short, for the socket
/// lies there.
fn server_user_dir(context: &Context, privilege: Privilege) -> Result<PathBuf> {
    let dir = if privilege == Privilege::Root {
        context.cache.path("pgrx-data")
    } else {
        env::temp_dir().join(format!("blockwise-pgrx-{}", rustix::process::getuid().as_raw()))
    };
    let mut install = privilege
        .as_root("install")
        .context("only root can make a directory for another user")?;
    capture(install.args(["-d", "-m", "755", "-o", SERVER_USER]).arg(&dir))?;
    Ok(dir)
}

/// Installs the extension with its fault points.
fn install(context: &Context, server: &Server) -> Result<()> {
    let mut cargo = context.cargo(server);
    cargo
        .args(["pgrx", "install", "--pg-config"])
        .arg(&server.pg_config);
    cargo.args(context.features(server, "testing"));
    if server.is_packaged() && Privilege::detect() == Privilege::Sudo {
        cargo.arg("--sudo");
    }
    context.step(
        &format!("installing the extension into {}", server.label()),
        &mut cargo,
    )
}

/// The tests that start, crash and restart whole servers.
fn cluster_tests(context: &Context, server: &Server) -> Result<()> {
    let mut cargo = context.plain_cargo();
    cargo.args([
        "test",
        "--package",
        "pg_test",
        "--test",
        "cluster",
        "--",
        "--test-threads=2",
    ]);
    cargo
        .args(&context.filter)
        .env("BLOCKWISE_PG_CONFIG", &server.pg_config);
    if let Some(minutes) = context.soak {
        say(&format!(
            "The tests that run for a given time will run for {minutes} minutes each."
        ));
        cargo.env("BLOCKWISE_SOAK_MINUTES", minutes.to_string());
    }
    context.step(
        &format!("running the cluster tests on {}", server.label()),
        &mut cargo,
    )
}

/// A readable copy of `from` in `to`, one level deep.
pub(super) fn copy_files(from: &Path, to: &Path) -> Result<()> {
    make_readable_dir(to)?;
    for entry in std::fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            std::fs::copy(&path, to.join(name)).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}
