//! A statement that runs in a thread of its own while the test does other things.

use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use postgres::{CancelToken, NoTls};

use crate::{Error, Result, Rows, Session, SqlResult};

/// How long [`Running::join`] waits for the statement.
const LIMIT: Duration = Duration::from_secs(170);

/// A running statement.
pub struct Running {
    pid: i32,
    cancel: CancelToken,
    thread: JoinHandle<(Session, SqlResult<Rows>)>,
}

impl Running {
    pub(crate) fn start(mut session: Session, sql: String) -> Self {
        let (pid, cancel) = (session.pid(), session.cancel_token());
        let thread = spawn(move || {
            let result = session.rows(&sql);
            (session, result)
        });
        Self { pid, cancel, thread }
    }

    /// The backend's process number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether it has ended, one way or the other.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Cancels the statement.
    pub fn cancel(&self) -> Result<()> {
        self.cancel
            .cancel_query(NoTls)
            .map_err(|e| Error::new(format!("cannot cancel: {e}")))
    }

    /// Waits for the end: the session, to go on with, and the statement's result.
    pub fn join(self) -> Result<(Session, SqlResult<Rows>)> {
        let start = Instant::now();
        while !self.thread.is_finished() {
            if start.elapsed() > LIMIT {
                return Err(Error::new(format!(
                    "the statement of backend {} does not end",
                    self.pid
                )));
            }
            sleep(Duration::from_millis(2));
        }
        self.thread
            .join()
            .map_err(|_| Error::new("the thread of a background statement panicked"))
    }

    /// Waits for the end, which has to be a success.
    pub fn join_ok(self) -> Result<(Session, Rows)> {
        let (session, result) = self.join()?;
        Ok((session, result?))
    }

    /// Waits for the end, which has to be an error with this SQLSTATE.
    pub fn join_error(self, sqlstate: &str) -> Result<(Session, crate::SqlError)> {
        match self.join()? {
            (session, Err(error)) if error.code == sqlstate => Ok((session, error)),
            (_, Err(error)) => Err(Error::new(format!(
                "SQLSTATE {sqlstate} was expected, but: {error}"
            ))),
            (_, Ok(rows)) => Err(Error::new(format!(
                "succeeded where SQLSTATE {sqlstate} was expected: {rows:?}"
            ))),
        }
    }
}
