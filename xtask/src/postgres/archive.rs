//! Debian's archive, read with a private apt configuration.
//!
//! Sources and packages of other releases are wanted here, but the machine must not come to install from them.
//! So apt gets a source list, package lists and a download directory of its own in our cache. The mirror is the
//! one that the system itself uses.

use crate::cache::{Cache, make_readable_dir, write_if_changed, younger_than};
use crate::exec::{capture, command, step};
use anyhow::{Context, Error, Result};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long a package list is believed before the archive is asked again.
const LIST_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// The key ring that Debian systems verify the archive with.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The archive could not be reached or does not offer what was asked for. Callers have other ways then.
#[derive(Debug)]
pub(super) struct Unavailable(String);

impl fmt::Display for Unavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

/// Marks an error as one for which there is another way.
pub(super) fn unavailable(error: impl fmt::Display) -> Error {
    Unavailable(format!("{error:#}")).into()
}

/// What is wanted of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Source packages.
    Source,
    /// Binary packages.
    Binary,
}

/// One release of Debian.
#[derive(Debug)]
pub(super) struct Archive {
    suite: &'static str,
    dir: PathBuf,
    kind: Kind,
}

impl Archive {
    /// Prepares the private configuration for a release and reads its package list if that is old.
    pub(super) fn open(cache: &Cache, suite: &'static str, kind: Kind) -> Result<Self> {
        let word = if kind == Kind::Source { "deb-src" } else { "deb" };
        let dir = cache.dir(&format!("apt/{suite}-{word}"))?;
        let archive = Self { suite, dir, kind };
        for part in ["lists/partial", "cache/archives/partial"] {
            make_readable_dir(&archive.dir.join(part))?;
        }
        let site = system_site().map_err(unavailable)?;
        let signed = if Path::new(KEYRING).exists() {
            format!("[signed-by={KEYRING}] ")
        } else {
            String::new()
        };
        write_if_changed(
            &archive.dir.join("sources.list"),
            &format!("{word} {signed}{site} {suite} main\n"),
        )?;
        archive.update(cache)?;
        Ok(archive)
    }

    /// Fetches the package list, at most once a day.
    fn update(&self, cache: &Cache) -> Result<()> {
        let stamp = self.dir.join("updated");
        if younger_than(&stamp, LIST_LIFETIME) {
            return Ok(());
        }
        let mut update = self.apt("apt-get");
        // Without this option apt reports an unreachable archive as a mere warning.
        update.args(["-o", "APT::Update::Error-Mode=any", "update"]);
        step(
            &format!("asking Debian's archive what {} offers", self.suite),
            &mut update,
            &cache.log("archive")?,
        )
        .map_err(unavailable)?;
        fs::write(&stamp, "").with_context(|| format!("cannot write {}", stamp.display()))
    }

    /// An apt program that knows this release and nothing else.
    fn apt(&self, program: &str) -> Command {
        let mut command = command(program);
        let dir = self.dir.display();
        for option in [
            format!("Dir::Etc::sourcelist={dir}/sources.list"),
            "Dir::Etc::sourceparts=-".to_owned(),
            format!("Dir::State::lists={dir}/lists"),
            format!("Dir::Cache={dir}/cache"),
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            "Acquire::Retries=3".to_owned(),
        ] {
            command.args(["-o", &option]);
        }
        command
    }

    /// The upstream version that the release offers of a source or binary package.
    pub(super) fn version(&self, package: &str) -> Result<String> {
        let verb = if self.kind == Kind::Source {
            "showsrc"
        } else {
            "show"
        };
        let text = capture(self.apt("apt-cache").args([verb, package])).map_err(unavailable)?;
        parse_version(&text)
            .ok_or_else(|| Unavailable(format!("{} offers no package {package}", self.suite)).into())
    }

    /// Downloads into `into`: a source package's files, or binary packages.
    pub(super) fn download(&self, cache: &Cache, packages: &[&str], into: &Path) -> Result<()> {
        let mut download = self.apt("apt-get");
        match self.kind {
            Kind::Source => download.args(["source", "--download-only", "--only-source"]),
            Kind::Binary => download.arg("download"),
        };
        download.args(packages).current_dir(into);
        let what = format!("downloading {} of Debian {}", packages.join(" and "), self.suite);
        step(&what, &mut download, &cache.log("download")?).map_err(unavailable)
    }
}

/// The newest upstream version among apt-cache's records: what stands before the Debian revision.
fn parse_version(text: &str) -> Option<String> {
    let versions = text.lines().filter_map(|line| line.strip_prefix("Version: "));
    let upstream = versions.map(|version| version.rsplit_once('-').map_or(version, |(upstream, _)| upstream));
    upstream.max_by_key(|version| numbers(version)).map(str::to_owned)
}

/// The numbers in a version, for comparing.
fn numbers(version: &str) -> Vec<u32> {
    version
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|part| part.parse().ok())
        .collect()
}

/// The mirror that the system's own main release comes from.
fn system_site() -> Result<String> {
    let text = capture(command("apt-get").args(["indextargets", "--format", "$(SITE) $(RELEASE)"]))?;
    parse_site(&text).context("the system's apt configuration names no Debian mirror")
}

/// The first site of a plain release; updates and security fixes lie elsewhere and have no other releases.
fn parse_site(text: &str) -> Option<String> {
    let mut sites = text.lines().filter_map(|line| line.split_once(' '));
    sites
        .find(|(_, release)| !release.is_empty() && !release.contains('-'))
        .map(|(site, _)| site.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_upstream_version_is_taken() {
        let text = "Package: postgresql-18\nVersion: 18.6-3\n\nPackage: postgresql-18\nVersion: 18.10-1\n";
        assert_eq!(parse_version(text).as_deref(), Some("18.10"));
        assert_eq!(
            parse_version("Version: 15.18-0+deb12u1\n").as_deref(),
            Some("15.18")
        );
        assert_eq!(parse_version(""), None);
    }

    #[test]
    fn the_mirror_of_the_plain_release_is_taken() {
        let text =
            "http://one.example/debian-security bookworm-security\nhttp://two.example/debian bookworm\n";
        assert_eq!(parse_site(text).as_deref(), Some("http://two.example/debian"));
        assert_eq!(parse_site(""), None);
    }
}
