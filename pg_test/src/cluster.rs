//! A running server with a data folder of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use crate::config::{MEMORY_FOLDER, write_settings};
use crate::log::{Delivered, LogRules, complaints};
use crate::process::{self, Signal, children_of, give_to_server_user, is_alive, run, wait_until};
use crate::{Error, Installation, Result, Session, SqlResult};

/// TCP is off, so every server may have the same number.
pub(crate) const PORT: u16 = 5432;

/// How long a Unix socket's path may be, less the file's own name and some room.
const LONGEST_SOCKET_FOLDER: usize = 80;

/// The ways to stop a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// Waits for all sessions to end.
    Smart,
    /// Ends all sessions, then a shutdown checkpoint.
    Fast,
    /// No checkpoint: the next start recovers from the WAL.
    Immediate,
}

/// A PostgreSQL cluster. Dropping it stops the server, removes the folder and fails the test if the log complains.
pub struct Cluster {
    installation: Installation,
    place: Place,
    settings: Mutex<BTreeMap<String, String>>,
    rules: Mutex<LogRules>,
    delivered: Arc<Delivered>,
}

impl Cluster {
    /// A cluster on a data folder that is there already; writes its settings.
    pub(crate) fn adopt(
        installation: Installation,
        place: Place,
        settings: BTreeMap<String, String>,
        rules: LogRules,
    ) -> Result<Self> {
        write_settings(&place.data(), &place.sockets, &settings)?;
        Ok(Self {
            installation,
            place,
            settings: Mutex::new(settings),
            rules: Mutex::new(rules),
            delivered: Arc::default(),
        })
    }

    /// The server programs it runs on.
    #[must_use]
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// The data folder.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.place.data()
    }

    /// The cluster's own folder: data folder, log, socket, archive.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.place.root
    }

    /// The folder of its Unix socket.
    #[must_use]
    pub fn sockets(&self) -> &Path {
        &self.place.sockets
    }

    /// A copy of the settings and log rules, for a standby or a restored copy.
    pub(crate) fn heritage(&self) -> (BTreeMap<String, String>, LogRules) {
        (lock(&self.settings).clone(), lock(&self.rules).clone())
    }

    /// Changes a setting in the file; [`Cluster::reload`] or [`Cluster::restart`] makes it count.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        let mut settings = lock(&self.settings);
        settings.insert(name.into(), value.into());
        write_settings(&self.data(), &self.place.sockets, &settings)
    }

    /// Starts the server and waits until it takes connections.
    pub fn start(&self) -> Result<()> {
        let started = run(self
            .pg_ctl()?
            .arg("-l")
            .arg(self.place.log())
            .args(["-s", "-t", "170", "start"]));
        started
            .map(|_| ())
            .map_err(|e| Error::new(format!("{e}\nend of the log:\n{}", self.log_tail())))
    }

    /// Stops the server.
    pub fn stop(&self, mode: StopMode) -> Result<()> {
        let mode = match mode {
            StopMode::Smart => "smart",
            StopMode::Fast => "fast",
            StopMode::Immediate => "immediate",
        };
        run(self.pg_ctl()?.args(["-s", "-t", "170", "-m", mode, "stop"])).map(|_| ())
    }

    /// A fast stop and a start.
    pub fn restart(&self) -> Result<()> {
        self.stop(StopMode::Fast)?;
        self.start()
    }

    /// Has the server read its settings again.
    pub fn reload(&self) -> Result<()> {
        run(self.pg_ctl()?.args(["-s", "reload"])).map(|_| ())
    }

    /// An immediate stop: what is not in the WAL is lost.
    pub fn crash(&self) -> Result<()> {
        self.stop(StopMode::Immediate)
    }

    /// A crash and the recovery from it.
    pub fn crash_and_recover(&self) -> Result<()> {
        self.crash()?;
        self.start()
    }

    /// Kills the postmaster by SIGKILL and waits until its children have noticed and gone.
    pub fn kill_postmaster(&self) -> Result<()> {
        let pid = self.pid()?;
        let children = children_of(pid)?;
        process::signal(pid, Signal::KILL)?;
        wait_until(
            "the killed postmaster's processes go",
            Duration::from_secs(30),
            || Ok(!is_alive(pid) && !children.iter().any(|&child| is_alive(child))),
        )?;
        // A process that nobody reaps would make the next start believe that the server runs.
        let socket_lock = self.place.sockets.join(format!(".s.PGSQL.{PORT}.lock"));
        for lock_file in [self.data().join("postmaster.pid"), socket_lock] {
            let _ = fs::remove_file(lock_file);
        }
        Ok(())
    }

    /// Sends a signal to one backend of this server.
    pub fn signal_backend(&self, pid: i32, signal: Signal) -> Result<()> {
        if !children_of(self.pid()?)?.contains(&pid) {
            return Err(Error::new(format!("process {pid} is no backend of this server")));
        }
        process::signal(pid, signal)
    }

    /// After a backend died by a signal the server restarts by itself; waits until that is over.
    pub fn wait_ready(&self) -> Result<()> {
        wait_until("the server takes connections", Duration::from_secs(60), || {
            Ok(self.session("template1").is_ok())
        })
    }

    /// Waits until no process of this server works in the database any more: what a client program leaves behind ends
    /// a moment after the program.
    pub fn wait_unused(&self, database: &str) -> Result<()> {
        let postmaster = self.pid()?;
        let mark = format!(" {database} ");
        wait_until("the database is unused", Duration::from_secs(30), || {
            let titles = children_of(postmaster)?.into_iter().map(process::title);
            Ok(!titles.into_iter().any(|title| title.contains(&mark)))
        })
    }

    /// Ends recovery on a standby and waits for it.
    pub fn promote(&self) -> Result<()> {
        run(self.pg_ctl()?.args(["-s", "-t", "60", "promote"])).map(|_| ())
    }

    /// The postmaster's process number.
    pub fn pid(&self) -> Result<i32> {
        let path = self.data().join("postmaster.pid");
        let text =
            fs::read_to_string(path).map_err(|e| Error::new(format!("the server does not run: {e}")))?;
        let first = text.lines().next().unwrap_or_default();
        first
            .trim()
            .parse()
            .map_err(|_| Error::new(format!("postmaster.pid starts with {first:?}")))
    }

    /// A session as the superuser `postgres`.
    pub fn session(&self, database: &str) -> SqlResult<Session> {
        self.session_as(database, "postgres")
    }

    /// A session as this role.
    pub fn session_as(&self, database: &str, user: &str) -> SqlResult<Session> {
        Session::connect(&self.place.sockets, database, user, "pg_test", &self.delivered)
    }

    /// A session with an application name of its own.
    pub fn session_named(&self, database: &str, user: &str, application: &str) -> SqlResult<Session> {
        Session::connect(&self.place.sockets, database, user, application, &self.delivered)
    }

    /// Runs statements in a new session, one by one and each in a transaction of its own.
    pub fn batch(&self, database: &str, statements: &[&str]) -> Result<()> {
        let mut session = self.session(database)?;
        for statement in statements {
            session
                .batch(statement)
                .map_err(|e| Error::from(e).context(statement))?;
        }
        Ok(())
    }

    /// A checkpoint (on a standby a restartpoint, where there is something to restart from).
    pub fn checkpoint(&self) -> Result<()> {
        Ok(self.session("postgres")?.batch("CHECKPOINT")?)
    }

    /// The end of the WAL that has been inserted.
    pub fn lsn(&self) -> Result<String> {
        Ok(self
            .session("postgres")?
            .query_value("SELECT pg_current_wal_insert_lsn()")?)
    }

    /// The path of a relation's first file, in the data folder.
    pub fn relation_path(&self, database: &str, relation: &str) -> Result<PathBuf> {
        let question = format!("SELECT pg_relation_filepath({})", crate::literal(relation));
        let path: String = self.session(database)?.query_value(&question)?;
        Ok(self.data().join(path))
    }

    /// The line that opens a psql on this server.
    #[must_use]
    pub fn psql_line(&self, database: &str) -> String {
        let psql = self.installation.bindir().join("psql");
        let sockets = self.place.sockets.display();
        format!(
            "{} -h {sockets} -p {PORT} -U postgres {}",
            psql.display(),
            quoted(database)
        )
    }

    /// Runs a script through `psql -XAtq -v ON_ERROR_STOP=1`; the output tells how it went.
    pub fn psql(&self, database: &str, script: &str) -> Result<Output> {
        let file = self.place.script(script)?;
        let mut command = self.client("psql", database)?;
        Ok(command
            .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-f"])
            .arg(&file)
            .output()?)
    }

    /// Runs a script once through pgbench (which has pipelines), further options as given.
    pub fn pgbench(&self, database: &str, script: &str, options: &[&str]) -> Result<Output> {
        let file = self.place.script(script)?;
        let mut command = self.installation.command("pgbench")?;
        self.point_at(&mut command);
        command
            .args(["-n", "-t", "1", "-f"])
            .arg(&file)
            .args(options)
            .arg(database);
        Ok(command.output()?)
    }

    /// A client program of the installation, pointed at this server and database.
    pub fn client(&self, program: &str, database: &str) -> Result<std::process::Command> {
        let mut command = self.installation.command(program)?;
        self.point_at(&mut command);
        command.args(["-d", database]);
        Ok(command)
    }

    /// Adds host, port and user of this server to a client program's arguments.
    pub fn point_at(&self, command: &mut std::process::Command) {
        command
            .arg("-h")
            .arg(&self.place.sockets)
            .args(["-p", &PORT.to_string(), "-U", "postgres"]);
    }

    /// The whole server log.
    pub fn log_text(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.place.log()).unwrap_or_default()).into_owned())
    }

    /// From now on lines of the log that match this regular expression are no complaint.
    pub fn allow_log(&self, pattern: &str) {
        lock(&self.rules).allow(pattern);
    }

    /// Fails when the log holds a panic, a failed assertion, a leak, or an error that no session of ours was told of.
    pub fn check_log(&self) -> Result<()> {
        let found = complaints(&self.log_text()?, &lock(&self.rules), &self.delivered);
        if found.is_empty() {
            return Ok(());
        }
        Err(Error::new(format!(
            "the server log of {} complains:\n{}",
            self.place.root.display(),
            found.join("\n")
        )))
    }

    fn pg_ctl(&self) -> Result<std::process::Command> {
        let mut command = self.installation.command("pg_ctl")?;
        command.arg("-D").arg(self.data()).arg("-w");
        Ok(command)
    }

    fn log_tail(&self) -> String {
        let text = self.log_text().unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "--- end of the server log of {}\n{}\n---",
                self.place.root.display(),
                self.log_tail()
            );
        }
        if self.place.keep {
            return;
        }
        if self.pid().is_ok()
            && let Err(error) = self.stop(StopMode::Immediate)
        {
            eprintln!("{error}");
        }
        let verdict = self.check_log();
        self.place.remove();
        if let (Err(error), false) = (verdict, std::thread::panicking()) {
            panic!("{error}");
        }
    }
}

/// Where a cluster lives.
pub(crate) struct Place {
    root: PathBuf,
    sockets: PathBuf,
    keep: bool,
}

impl Place {
    /// A new folder, under the temporary folder unless told otherwise.
    pub(crate) fn new(under: Option<&Path>, keep: bool) -> Result<Self> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        static SWEEP: Once = Once::new();
        SWEEP.call_once(|| {
            sweep(&std::env::temp_dir());
            sweep(Path::new(MEMORY_FOLDER));
        });
        let kept = if keep { "kept-" } else { "" };
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("blockwise-{kept}{}-{serial}", std::process::id());
        let root = under.map_or_else(std::env::temp_dir, Path::to_owned).join(&name);
        let long = root.as_os_str().len() > LONGEST_SOCKET_FOLDER;
        let sockets = if long {
            Path::new("/tmp").join(format!("{name}-s"))
        } else {
            root.clone()
        };
        for folder in [&root, &sockets] {
            fs::create_dir_all(folder)?;
            give_to_server_user(folder)?;
        }
        Ok(Self { root, sockets, keep })
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// The folder to archive WAL to.
    pub(crate) fn archive(&self) -> PathBuf {
        self.root.join("archive")
    }

    fn log(&self) -> PathBuf {
        self.root.join("server.log")
    }

    /// Writes a script into a file of its own that a client program can read.
    fn script(&self, text: &str) -> Result<PathBuf> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let file = self
            .root
            .join(format!("script-{}.sql", SERIAL.fetch_add(1, Ordering::Relaxed)));
        fs::write(&file, text)?;
        Ok(file)
    }

    pub(crate) fn remove(&self) {
        for folder in [&self.root, &self.sockets] {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Stops and removes what earlier runs left that were killed before they could clean up: folders that carry the
/// number of a process that is gone. A server is signalled only if it works in that very folder.
fn sweep(temp: &Path) {
    for entry in fs::read_dir(temp).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix("blockwise-")
            .and_then(|rest| rest.split('-').next()?.parse::<i32>().ok());
        let Some(owner) = owner else { continue };
        if is_alive(owner) {
            continue;
        }
        let disk = entry.path().join("disk");
        if disk.is_dir() {
            let _ = std::process::Command::new("umount").arg("-l").arg(&disk).output();
        }
        let data = entry.path().join("data");
        let pid = fs::read_to_string(data.join("postmaster.pid")).ok();
        if let Some(pid) = pid.and_then(|text| text.lines().next()?.trim().parse::<i32>().ok())
            && fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == data)
        {
            let _ = process::signal(pid, Signal::QUIT);
            let _ = wait_until("an abandoned server stops", Duration::from_secs(10), || {
                Ok(!is_alive(pid))
            });
        }
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// `text` as one word of a shell.
fn quoted(text: &str) -> String {
    if text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return text.into();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A panic in another thread does not spoil what this mutex guards.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
