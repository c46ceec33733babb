//! What has to be on the machine before anything can be built: Debian packages and cargo-pgrx.
//!
//! Nothing is asked of a machine that already has it: the checks are two quick commands. Where we may not
//! install, the exact line to run is the error.

use crate::cache::Cache;
use crate::exec::{capture, command, say, step};
use crate::user::Privilege;
use anyhow::{Context, Result, bail};

/// The version of pgrx that the extension is written for; cargo-pgrx must match it exactly.
const PGRX_VERSION: &str = "0.18.1";

/// The server that most people run and its headers. They come from one source package and must match.
const POSTGRES_PACKAGES: [&str; 2] = ["postgresql-15", "postgresql-server-dev-15"];

/// What pgrx, bindgen and a build of PostgreSQL from source need, each with the reason.
const TOOL_PACKAGES: [&str; 19] = [
    // A compiler for the C parts of pgrx and for PostgreSQL itself.
    "gcc",
    "libc6-dev",
    "make",
    "pkg-config",
    // bindgen reads the server's headers with libclang.
    "clang",
    "libclang-dev",
    // PostgreSQL from source: scanner and parser, libraries, and the tools that fetch and unpack it.
    "bison",
    "flex",
    "perl",
    "libicu-dev",
    "liblz4-dev",
    "libreadline-dev",
    "libxml2-dev",
    "libzstd-dev",
    "zlib1g-dev",
    "bzip2",
    "dpkg-dev",
    // `cargo pgrx test --runas` starts its server through sudo.
    "sudo",
    // Tests and benchmarks of file cloning make an XFS file system in a file.
    "xfsprogs",
];

/// Makes sure of everything that a build of the extension needs.
pub(crate) fn ensure(cache: &Cache) -> Result<()> {
    let _lock = cache.lock("set-up")?;
    packages(cache)?;
    cargo_pgrx(cache)
}

/// Installs the Debian packages that are missing.
fn packages(cache: &Cache) -> Result<()> {
    let installed = installed_versions()?;
    let missing = missing_packages(&installed);
    if missing.is_empty() {
        return Ok(());
    }
    let privilege = Privilege::detect();
    let (Some(mut update), Some(mut install)) = (apt(privilege), apt(privilege)) else {
        bail!(
            "some Debian packages are missing and we are neither root nor have sudo without a password.\n\
             Run this line, then try again:\n  sudo apt-get update && sudo apt-get install -y --no-install-recommends {}",
            missing.join(" ")
        );
    };
    say(&format!(
        "Installing Debian packages that the build and the test servers need: {}",
        missing.join(" ")
    ));
    step(
        "updating the package lists",
        update.arg("update"),
        &cache.log("apt-update")?,
    )?;
    install
        .args(["install", "-y", "--no-install-recommends"])
        .args(&missing);
    step(
        "installing the packages",
        &mut install,
        &cache.log("apt-install")?,
    )?;
    let left = missing_packages(&installed_versions()?);
    if left.is_empty() {
        return Ok(());
    }
    bail!(
        "still missing after the installation: {}. Is this Debian 12 (bookworm)?",
        left.join(" ")
    )
}

/// `apt-get` as root, never asking questions; None if we cannot be root.
fn apt(privilege: Privilege) -> Option<std::process::Command> {
    let mut command = privilege.as_root("env")?;
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]);
    Some(command)
}

/// Each wanted package that is installed, with its version.
fn installed_versions() -> Result<Vec<(String, String)>> {
    let mut query = command("dpkg-query");
    query.args(["-W", "-f", "${db:Status-Status} ${Package} ${Version}\\n"]);
    let text = capture(&mut query).context("this set-up knows Debian packages only")?;
    Ok(parse_installed(&text))
}

/// Reads dpkg-query's lines; packages that are only known or half removed do not count.
fn parse_installed(text: &str) -> Vec<(String, String)> {
    let installed = text.lines().filter_map(|line| {
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("installed"), Some(name), Some(version)) => Some((name.to_owned(), version.to_owned())),
            _ => None,
        }
    });
    installed.collect()
}

/// What has to be installed. Server and headers are always installed together, for a newer header package
/// would otherwise describe a server that is not the one running.
fn missing_packages(installed: &[(String, String)]) -> Vec<&'static str> {
    let version = |name: &str| {
        installed
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, version)| version)
    };
    let [server, headers] = POSTGRES_PACKAGES.map(version);
    let mut missing: Vec<&str> = Vec::new();
    if server.is_none() || server != headers {
        missing.extend(POSTGRES_PACKAGES);
    }
    missing.extend(TOOL_PACKAGES.iter().filter(|name| version(name).is_none()));
    missing
}

/// Installs cargo-pgrx in exactly the version that the extension is written for.
fn cargo_pgrx(cache: &Cache) -> Result<()> {
    let wanted = format!("cargo-pgrx {PGRX_VERSION}");
    let version = capture(command("cargo").args(["pgrx", "--version"]));
    if version.is_ok_and(|text| text.trim() == wanted) {
        return Ok(());
    }
    say(&format!(
        "Installing {wanted}, which builds and tests the extension; this takes a few minutes once."
    ));
    let mut install = command("cargo");
    install.args(["install", "cargo-pgrx", "--version", PGRX_VERSION, "--locked"]);
    // Its own target directory: without one a shared target directory would be filled with a foreign build.
    install.env("CARGO_TARGET_DIR", cache.dir("cargo-pgrx-build")?);
    step("building cargo-pgrx", &mut install, &cache.log("cargo-pgrx")?)?;
    crate::cache::remove_dir(&cache.path("cargo-pgrx-build"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything(server: &str, headers: &str) -> Vec<(String, String)> {
        let mut all: Vec<_> = TOOL_PACKAGES
            .iter()
            .map(|name| ((*name).to_owned(), "1".to_owned()))
            .collect();
        all.push((POSTGRES_PACKAGES[0].to_owned(), server.to_owned()));
        all.push((POSTGRES_PACKAGES[1].to_owned(), headers.to_owned()));
        all
    }

    #[test]
    fn nothing_is_missing_when_all_is_there() {
        assert!(missing_packages(&everything("15.20", "15.20")).is_empty());
    }

    #[test]
    fn server_and_headers_of_different_versions_are_installed_together() {
        assert_eq!(missing_packages(&everything("15.13", "15.20")), POSTGRES_PACKAGES);
    }

    #[test]
    fn a_removed_package_is_missing() {
        let lines = "installed gcc 4:12\nconfig-files make 4.3\ninstalled flex 2.6\n";
        let names: Vec<_> = parse_installed(lines).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["gcc", "flex"]);
    }
}
