//! Who we are, and who the servers run as.
//!
//! PostgreSQL refuses to run as root, so root's servers run as `postgres`, the user that Debian's package made.

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
