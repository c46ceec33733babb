//! Running server programs as the right user, and ending processes that the harness started.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, kill_process};

use crate::{Error, Result};

pub use rustix::process::Signal;

/// The user who owns the data folders: `postgres` when we are root, else nobody in particular (ourselves).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerUser {
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
}

impl ServerUser {
    /// The user to switch to, `None` when server programs run as ourselves.
    pub fn needed() -> Result<Option<Self>> {
        if fs::metadata("/proc/self")?.uid() != 0 {
            return Ok(None);
        }
        let passwd = fs::read_to_string("/etc/passwd")?;
        let entry = passwd.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            match fields.as_slice() {
                ["postgres", _, uid, gid, ..] => Some(Self {
                    uid: uid.parse().ok()?,
                    gid: gid.parse().ok()?,
                }),
                _ => None,
            }
        });
        entry.map(Some).ok_or_else(|| {
            Error::new(
                "we are root and there is no user \"postgres\" to run a server as (a server refuses root)",
            )
        })
    }
}

/// A command for a server program: right user, neutral environment, a working folder that user can enter.
pub fn server_command(program: &Path) -> Result<Command> {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("PG") || text.starts_with("RUST_") || text.starts_with("LC_") {
            command.env_remove(&name);
        }
    }
    command
        .env("LC_ALL", "C")
        .env_remove("LANG")
        .env_remove("LANGUAGE")
        .current_dir("/");
    if let Some(user) = ServerUser::needed()? {
        command.uid(user.uid).gid(user.gid);
    }
    Ok(command)
}

/// Runs the command to its end; an exit other than 0 is an error that carries all it printed.
pub fn run(command: &mut Command) -> Result<Output> {
    let output = command
        .output()
        .map_err(|e| Error::new(format!("cannot run {command:?}: {e}")))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(Error::new(format!(
        "{command:?} ended with {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )))
}

/// Gives `path` (not what is below it) to the server's user.
pub fn give_to_server_user(path: &Path) -> Result<()> {
    if let Some(user) = ServerUser::needed()? {
        std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid))?;
    }
    Ok(())
}

/// Sends a signal to one process that the harness started (or a backend of its server).
pub fn signal(pid: i32, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(pid).ok_or_else(|| Error::new(format!("{pid} is no process id")))?;
    kill_process(pid, signal).map_err(|e| Error::new(format!("cannot signal process {pid:?}: {e}")))
}

/// Whether the process still runs (one that only waits to be reaped does not).
#[must_use]
pub fn is_alive(pid: i32) -> bool {
    stat_fields(pid).is_some_and(|fields| fields.first().is_some_and(|state| state != "Z" && state != "X"))
}

/// The living children of a process.
pub fn children_of(parent: i32) -> Result<Vec<i32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(pid) = entry?.file_name().to_string_lossy().parse::<i32>() else {
            continue;
        };
        if stat_fields(pid).and_then(|f| f.get(1)?.parse().ok()) == Some(parent) && is_alive(pid) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// What a process calls itself; empty when it is gone.
#[must_use]
pub fn title(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// A number in kB from /proc/PID/status, for example `RssAnon`.
pub fn memory_kb(pid: i32, field: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    status
        .lines()
        .find_map(|line| {
            line.strip_prefix(field)?
                .strip_prefix(':')?
                .trim()
                .strip_suffix("kB")?
                .trim()
                .parse()
                .ok()
        })
        .ok_or_else(|| Error::new(format!("/proc/{pid}/status has no {field}")))
}

/// Waits until `condition` holds, asking every few milliseconds.
pub fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !condition()? {
        if start.elapsed() > limit {
            return Err(Error::new(format!("waited {limit:?} in vain: {what}")));
        }
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// State, parent and so on from /proc/PID/stat (the fields after the program's name).
fn stat_fields(pid: i32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_whitespace().map(Into::into).collect())
}
