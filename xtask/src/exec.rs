//! Running other programs so that a reader knows what is going on.
//!
//! A step says what it does and why, then shows a spinner with the time and the last line of output; where
//! nobody watches (CI, a pipe) it prints plain lines instead. All output goes to a log file. A failure names
//! the exact command and shows the end of that file.

use anyhow::{Context, Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{IsTerminal, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How many lines of a failed command's output are shown.
const TAIL_LINES: usize = 60;
/// How many lines of errors and failed tests are shown.
const FAILURE_LINES: usize = 300;
/// How often the display looks at the running command.
const TICK: Duration = Duration::from_millis(100);
/// How often a sign of life is printed where nobody sees a spinner.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// Prints one line about what is going on; standard output is kept for results.
pub(crate) fn say(line: &str) {
    eprintln!("{line}");
}

/// Variables that must not leak into what we start: a server that has RUST_BACKTRACE set appends backtraces to
/// its errors, and those of our own cargo run describe xtask, not the crate that is being built.
const REMOVED_VARIABLES: [&str; 8] = [
    "RUST_BACKTRACE",
    "RUST_LIB_BACKTRACE",
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_PATH",
    "CARGO_PKG_NAME",
    "CARGO_PKG_VERSION",
    "CARGO_PGRX_TEST_RUNAS",
    "CARGO_PGRX_TEST_PGDATA",
];

/// A new command with a clean environment.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for name in REMOVED_VARIABLES {
        command.env_remove(name);
    }
    command
}

/// Runs a step: says `what`, shows progress, keeps the output in `log`, and fails with the command and the end
/// of its output.
pub(crate) fn step(what: &str, command: &mut Command, log: &Path) -> Result<()> {
    let mut file = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
    writeln!(file, "$ {}", shown(command))?;
    let display = Display::new(what);
    let status = watch(command, &file, log, &display);
    display.finish(status.as_ref().is_ok_and(ExitStatus::success));
    let status = status.with_context(|| format!("cannot run: {}", shown(command)))?;
    if status.success() {
        return Ok(());
    }
    Err(anyhow!(
        "{what} failed ({status})\n  command: {}\n  full output: {}\n{}",
        shown(command),
        log.display(),
        indented(&excerpt(log))
    ))
}

/// The part of a failed command's output that tells why: what Rust's test programs print of their failures, or
/// everything from the first error on, else the end.
fn excerpt(log: &Path) -> String {
    let text = read_log(log);
    let lines: Vec<&str> = text.lines().collect();
    let failures = lines.iter().position(|line| *line == "failures:");
    let error = || {
        lines
            .iter()
            .position(|line| line.starts_with("error: ") || line.starts_with("error["))
    };
    match failures.or_else(error) {
        Some(start) => shortened(&lines[start..]),
        None => tail(log, TAIL_LINES),
    }
}

/// Many lines cut in the middle: the beginning has the first error, the end has the list of what failed.
fn shortened(lines: &[&str]) -> String {
    if lines.len() <= FAILURE_LINES + TAIL_LINES {
        return lines.join("\n");
    }
    let (head, rest) = lines.split_at(FAILURE_LINES);
    let (left_out, tail) = rest.split_at(rest.len() - TAIL_LINES);
    format!(
        "{}\n[… {} lines …]\n{}",
        head.join("\n"),
        left_out.len(),
        tail.join("\n")
    )
}

/// Does a piece of work in this process: says `what` and shows how long it takes.
pub(crate) fn doing<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let display = Display::new(what);
    let outcome = work();
    display.finish(outcome.is_ok());
    outcome.with_context(|| format!("{what} failed"))
}

/// Waits for the command while keeping the display alive.
fn watch(command: &mut Command, file: &File, log: &Path, display: &Display) -> Result<ExitStatus> {
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file.try_clone()?);
    let mut child = command.spawn()?;
    let mut beat = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if beat.elapsed() > HEARTBEAT {
            beat = Instant::now();
            display.alive();
        }
        display.show(log);
        sleep(TICK);
    }
}

/// Runs a short command and returns what it printed.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run: {}", shown(command)))?;
    if output.status.success() {
        return String::from_utf8(output.stdout)
            .with_context(|| format!("no UTF-8 from: {}", shown(command)));
    }
    Err(anyhow!(
        "command failed ({}): {}\n{}",
        output.status,
        shown(command),
        indented(String::from_utf8_lossy(&output.stderr).trim_end())
    ))
}

/// What a reader sees of a running step.
struct Display {
    what: String,
    bar: Option<ProgressBar>,
    start: Instant,
}

impl Display {
    /// Begins the display of a step.
    fn new(what: &str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {prefix} [{elapsed}] {wide_msg:.dim}");
            let bar = ProgressBar::new_spinner().with_prefix(what.to_owned());
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(TICK);
            bar
        });
        if bar.is_none() {
            say(&format!("… {what}"));
        }
        Self {
            what: what.to_owned(),
            bar,
            start: Instant::now(),
        }
    }

    /// Shows the last line of output beside the spinner.
    fn show(&self, log: &Path) {
        if let Some(bar) = &self.bar {
            bar.set_message(tail(log, 1));
        }
    }

    /// Shows that a long step still runs.
    fn alive(&self) {
        if self.bar.is_none() {
            say(&format!(
                "  … {} still runs after {}",
                self.what,
                seconds(self.start.elapsed())
            ));
        }
    }

    /// Ends the display with one line that stays.
    fn finish(&self, success: bool) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let mark = if success { "✓" } else { "✗" };
        say(&format!(
            "{mark} {} ({})",
            self.what,
            seconds(self.start.elapsed())
        ));
    }
}

/// A duration as people read it.
pub(crate) fn seconds(time: Duration) -> String {
    let total = time.as_secs();
    if total >= 60 {
        format!("{}m{:02}s", total / 60, total % 60)
    } else {
        format!("{:.1}s", time.as_secs_f64())
    }
}

/// The last `lines` lines of a file, read from its end so that a long log costs nothing.
pub(crate) fn tail(path: &Path, lines: usize) -> String {
    let wanted = (lines as u64).saturating_mul(400).min(1 << 20);
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let start = file.metadata()?.len().saturating_sub(wanted);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(wanted).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
    let all: Vec<&str> = text.trim_end().lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Text moved to the right, to set it apart from our own lines.
pub(crate) fn indented(text: &str) -> String {
    text.lines()
        .map(|line| format!("  | {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// A command as it could be typed into a shell.
pub(crate) fn shown(command: &Command) -> String {
    let mut words = Vec::new();
    if let Some(dir) = command.get_current_dir() {
        words.push(format!("cd {} &&", quoted(dir.as_os_str())));
    }
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!("{}={}", name.to_string_lossy(), quoted(value)));
        }
    }
    words.push(quoted(command.get_program()));
    words.extend(command.get_args().map(quoted));
    words.join(" ")
}

/// One word, quoted where a shell needs it.
fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// The whole content of a log.
fn read_log(log: &Path) -> String {
    fs::read(log)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// The first of `candidates` that exists.
pub(crate) fn first_existing(candidates: &[PathBuf]) -> Option<&PathBuf> {
    candidates.iter().find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_a_shell_would_take_it() {
        let mut command = Command::new("psql");
        command
            .args(["-c", "select 'a'", ""])
            .env("PGHOST", "/tmp")
            .current_dir("/x y");
        assert_eq!(
            shown(&command),
            r"cd '/x y' && PGHOST=/tmp psql -c 'select '\''a'\''' ''"
        );
    }

    #[test]
    fn a_failure_names_the_command_and_shows_its_output() -> Result<()> {
        let log = std::env::temp_dir().join(format!("xtask-exec-{}.log", std::process::id()));
        let outcome = step("a test", command("sh").args(["-c", "echo sad; exit 3"]), &log);
        let message = outcome.expect_err("the command exits with 3").to_string();
        fs::remove_file(&log)?;
        assert!(message.contains("sh -c 'echo sad; exit 3'"), "{message}");
        assert!(message.contains("  | sad"), "{message}");
        Ok(())
    }

    #[test]
    fn long_output_is_cut_in_the_middle() {
        let line = |count| vec!["x"; count];
        assert_eq!(
            shortened(&line(FAILURE_LINES + TAIL_LINES)).lines().count(),
            FAILURE_LINES + TAIL_LINES
        );
        let cut = shortened(&line(FAILURE_LINES + TAIL_LINES + 7));
        assert!(cut.contains("[… 7 lines …]"));
        assert_eq!(cut.lines().count(), FAILURE_LINES + TAIL_LINES + 1);
    }

    #[test]
    fn captured_output_comes_back_and_failure_is_an_error() -> Result<()> {
        assert_eq!(capture(Command::new("echo").arg("x"))?, "x\n");
        assert!(capture(&mut Command::new("false")).is_err());
        Ok(())
    }

    #[test]
    fn times_are_short() {
        assert_eq!(seconds(Duration::from_millis(1_250)), "1.2s");
        assert_eq!(seconds(Duration::from_secs(125)), "2m05s");
    }
}
