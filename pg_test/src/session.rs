//! One connection to a server, with results as text and errors with all their fields.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postgres::error::DbError;
use postgres::{CancelToken, Client, Config, NoTls, SimpleQueryMessage};

use crate::cluster::{PORT, lock};
use crate::log::Delivered;
use crate::process::{is_alive, wait_until};
use crate::{Error, Result, Running, SqlError, SqlResult};

/// The rows of a result: each value as text, `None` for NULL.
pub type Rows = Vec<Vec<Option<String>>>;

/// A NOTICE, WARNING or the like that came with a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// NOTICE, WARNING, INFO, …
    pub severity: String,
    /// The primary message.
    pub message: String,
    /// DETAIL.
    pub detail: Option<String>,
}

impl From<&DbError> for Notice {
    fn from(error: &DbError) -> Self {
        Self {
            severity: error.severity().into(),
            message: error.message().into(),
            detail: error.detail().map(Into::into),
        }
    }
}

/// A connection to one database. Dropping it waits until its backend is gone: a database that a test has just left
/// is unused at once.
pub struct Session {
    client: Client,
    // After the client, for fields are dropped in order: it says goodbye, then we wait.
    backend: Backend,
    notices: Arc<Mutex<Vec<Notice>>>,
    delivered: Arc<Delivered>,
}

impl Session {
    pub(crate) fn connect(
        sockets: &Path,
        database: &str,
        user: &str,
        application: &str,
        delivered: &Arc<Delivered>,
    ) -> SqlResult<Self> {
        let notices: Arc<Mutex<Vec<Notice>>> = Arc::default();
        let (sink, told) = (Arc::clone(&notices), Arc::clone(delivered));
        let mut config = Config::new();
        config
            .host_path(sockets)
            .port(PORT)
            .dbname(database)
            .user(user)
            .application_name(application);
        config.notice_callback(move |error| {
            let notice = Notice::from(&error);
            told.notice(&notice);
            lock(&sink).push(notice);
        });
        let client = config.connect(NoTls).map_err(|e| note(delivered, e))?;
        let mut session = Self {
            client,
            backend: Backend { pid: 0 },
            notices,
            delivered: Arc::clone(delivered),
        };
        session.backend.pid = session.query_value("SELECT pg_backend_pid()")?;
        Ok(session)
    }

    /// The backend's process number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.backend.pid
    }

    /// Cancels this session's statement from any thread.
    #[must_use]
    pub fn cancel_token(&self) -> CancelToken {
        self.client.cancel_token()
    }

    /// The client underneath, for prepared statements and typed parameters.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Runs one statement, or several in one message, and forgets their rows.
    pub fn batch(&mut self, sql: &str) -> SqlResult<()> {
        self.client
            .batch_execute(sql)
            .map_err(|e| note(&self.delivered, e))
    }

    /// Runs a statement and tells how many rows it touched.
    pub fn execute(&mut self, sql: &str) -> SqlResult<u64> {
        let messages = self.simple(sql)?;
        Ok(messages.iter().rev().find_map(count).unwrap_or(0))
    }

    /// The rows of a query.
    pub fn rows(&mut self, sql: &str) -> SqlResult<Rows> {
        Ok(self.simple(sql)?.iter().filter_map(values).collect())
    }

    /// The one row of a query.
    pub fn row(&mut self, sql: &str) -> SqlResult<Vec<Option<String>>> {
        let mut rows = self.rows(sql)?;
        match (rows.pop(), rows.len()) {
            (Some(row), 0) => Ok(row),
            (row, more) => {
                let count = more + usize::from(row.is_some());
                Err(SqlError::broken(format!(
                    "{count} rows where one was expected: {sql}"
                )))
            }
        }
    }

    /// The one value of a query.
    pub fn query_value<T: FromText>(&mut self, sql: &str) -> SqlResult<T> {
        let row = self.row(sql)?;
        let text = row.first().cloned().flatten();
        T::from_text(text.as_deref())
            .ok_or_else(|| SqlError::broken(format!("{text:?} is no {}: {sql}", std::any::type_name::<T>())))
    }

    /// Runs a statement that has to fail with this SQLSTATE, and gives its error.
    pub fn expect_error(&mut self, sqlstate: &str, sql: &str) -> Result<SqlError> {
        match self.simple(sql) {
            Ok(_) => Err(Error::new(format!(
                "succeeded where SQLSTATE {sqlstate} was expected: {sql}"
            ))),
            Err(error) if error.code == sqlstate => Ok(error),
            Err(error) => Err(Error::new(format!(
                "SQLSTATE {sqlstate} was expected from {sql}, but: {error}"
            ))),
        }
    }

    /// Runs a statement in a thread of its own, with this session.
    #[must_use]
    pub fn spawn(self, sql: impl Into<String>) -> Running {
        Running::start(self, sql.into())
    }

    /// The notices since this was last asked.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut *lock(&self.notices))
    }

    fn simple(&mut self, sql: &str) -> SqlResult<Vec<SimpleQueryMessage>> {
        self.client
            .simple_query(sql)
            .map_err(|e| note(&self.delivered, e))
    }
}

/// The process behind a session.
struct Backend {
    pid: i32,
}

impl Drop for Backend {
    fn drop(&mut self) {
        let _ = wait_until("a backend goes", Duration::from_secs(5), || {
            Ok(!is_alive(self.pid))
        });
    }
}

fn note(delivered: &Delivered, error: postgres::Error) -> SqlError {
    let error = SqlError::from(error);
    delivered.error(&error);
    error
}

fn values(message: &SimpleQueryMessage) -> Option<Vec<Option<String>>> {
    match message {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|i| row.get(i).map(Into::into)).collect()),
        _ => None,
    }
}

fn count(message: &SimpleQueryMessage) -> Option<u64> {
    match message {
        SimpleQueryMessage::CommandComplete(count) => Some(*count),
        _ => None,
    }
}

/// A Rust value of a result's text.
pub trait FromText: Sized {
    /// Reads the text, `None` being NULL.
    fn from_text(text: Option<&str>) -> Option<Self>;
}

impl FromText for bool {
    fn from_text(text: Option<&str>) -> Option<Self> {
        match text? {
            "t" => Some(true),
            "f" => Some(false),
            _ => None,
        }
    }
}

impl<T: FromText> FromText for Option<T> {
    fn from_text(text: Option<&str>) -> Option<Self> {
        match text {
            None => Some(None),
            some => T::from_text(some).map(Some),
        }
    }
}

macro_rules! from_text_by_parsing {
    ($($type:ty),*) => {
        $(impl FromText for $type {
            fn from_text(text: Option<&str>) -> Option<Self> {
                text?.parse().ok()
            }
        })*
    };
}

from_text_by_parsing!(String, i32, i64, u32, u64, f64);
