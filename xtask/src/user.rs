//! Who we are, and who the servers run as.
//!
//! PostgreSQL refuses to run as root, so root's servers run as `postgres`, the user that Debian's package made.

use anyhow::{Context, Result, bail};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The user that root's servers run as.
pub(crate) const SERVER_USER: &str = "postgres";

/// What we may do to the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Privilege {
    /// We are root.
    Root,
    /// We can become root without being asked for a password.
    Sudo,
    /// We can only write to our own files.
    Plain,
}

impl Privilege {
    /// Finds out, without ever asking for a password.
    pub(crate) fn detect() -> Self {
        if rustix::process::geteuid().is_root() {
            return Self::Root;
        }
        let sudo = Command::new("sudo")
            .args(["-n", "true"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if sudo.is_ok_and(|status| status.success()) {
            Self::Sudo
        } else {
            Self::Plain
        }
    }

    /// A command that runs as root, or None if we may not.
    pub(crate) fn as_root(self, program: &str) -> Option<Command> {
        match self {
            Self::Root => Some(Command::new(program)),
            Self::Sudo => {
                let mut command = Command::new("sudo");
                command.args(["-n", program]);
                Some(command)
            }
            Self::Plain => None,
        }
    }
}

/// The numbers of the user that servers run as, where that is not ourselves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerUser {
    uid: u32,
    gid: u32,
}

impl ServerUser {
    /// The `postgres` user if we are root, None if servers run as ourselves.
    pub(crate) fn find() -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        Ok(Some(Self {
            uid: id("-u")?,
            gid: id("-g")?,
        }))
    }

    /// Makes `command` run as this user.
    pub(crate) fn run(self, command: &mut Command) -> &mut Command {
        // The standard library drops root's supplementary groups together with the user.
        command.uid(self.uid).gid(self.gid).env("HOME", "/tmp")
    }

    /// Gives a file or directory to this user.
    pub(crate) fn own(self, path: &Path) -> Result<()> {
        chown(path, Some(self.uid), Some(self.gid))
            .with_context(|| format!("cannot give {} to {SERVER_USER}", path.display()))
    }
}

/// One number of the server user, as `id` prints it.
fn id(flag: &str) -> Result<u32> {
    let output = Command::new("id")
        .args([flag, SERVER_USER])
        .output()
        .context("cannot run `id`")?;
    if !output.status.success() {
        bail!("there is no user {SERVER_USER}: root cannot run a server without one");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim()
        .parse()
        .with_context(|| format!("`id {flag} {SERVER_USER}` printed {text:?}"))
}
