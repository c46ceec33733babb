//! The stages that only need a compiler and headers: format, lints, documentation, unit tests, build checks.

use super::report::Report;
use super::{Context, Server};
use anyhow::Result;

/// Whether every file is formatted.
pub(super) fn format(context: &Context) -> Result<()> {
    context.step(
        "checking the format",
        context.plain_cargo().args(["fmt", "--all", "--check"]),
    )
}

/// All stages of this kind, for the servers that could be had.
pub(super) fn stages(context: &Context, report: &mut Report, servers: &[Server]) {
    let find = |major| servers.iter().find(|server| server.major == major);
    if let Some(server) = servers.iter().find(|server| server.is_packaged()) {
        report.stage("clippy 15", || clippy_workspace(context, server));
        report.stage("rustdoc", || rustdoc(context, server));
    }
    if let Some(server) = find(18) {
        report.stage("clippy 18", || clippy_extension(context, server));
    }
    if let Some(server) = find(17) {
        report.stage("check 17", || check(context, server));
    }
    report.stage("unit tests", || unit_tests(context));
}

/// Lints of everything, tests and fault points included.
fn clippy_workspace(context: &Context, server: &Server) -> Result<()> {
    let mut cargo = context.cargo(server);
    cargo
        .args(["clippy", "--workspace", "--all-targets"])
        .args(context.features(server, "testing"));
    context.step(
        "linting the workspace on 15",
        cargo.args(["--", "-D", "warnings"]),
    )
}

/// Lints of what differs between the versions: the extension.
fn clippy_extension(context: &Context, server: &Server) -> Result<()> {
    let mut cargo = context.cargo(server);
    cargo
        .args(["clippy", "--package", "blockwise", "--all-targets"])
        .args(context.features(server, "testing"));
    context.step(
        &format!("linting the extension on {}", server.label()),
        cargo.args(["--", "-D", "warnings"]),
    )
}

/// The documentation has no broken links, that of private items included, for those who work on the code.
fn rustdoc(context: &Context, server: &Server) -> Result<()> {
    let mut cargo = context.cargo(server);
    cargo.args(["doc", "--workspace", "--no-deps", "--document-private-items"]);
    cargo
        .args(context.features(server, "testing"))
        .env("RUSTDOCFLAGS", "-D warnings");
    context.step("building the documentation", &mut cargo)
}

/// The extension compiles on a version that it is not run on, without fault points as a package would be.
fn check(context: &Context, server: &Server) -> Result<()> {
    let mut cargo = context.cargo(server);
    cargo
        .args(["check", "--package", "blockwise"])
        .args(context.features(server, ""));
    context.step("compiling the extension on 17", &mut cargo)
}

/// Tests that need no server.
fn unit_tests(context: &Context) -> Result<()> {
    let mut cargo = context.plain_cargo();
    cargo.args([
        "test",
        "--package",
        "xtask",
        "--package",
        "pg_test",
        "--lib",
        "--bins",
    ]);
    context.step("testing xtask and the harness", &mut cargo)
}
