//! What can go wrong in the harness: an error of the server with all its fields, or a sentence.

use std::fmt;

/// An error with a sentence for a person; printed whole by a failing test.
pub struct Error(String);

/// The harness's result.
pub type Result<T> = std::result::Result<T, Error>;

/// The result of a statement: its error keeps the server's fields apart.
pub type SqlResult<T> = std::result::Result<T, SqlError>;

impl Error {
    /// An error with this sentence.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The same error with what was being done put in front.
    #[must_use]
    pub fn context(self, what: impl fmt::Display) -> Self {
        Self(format!("{what}: {}", self.0))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// A test that returns `Err` prints it with `Debug`: keep it readable.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<SqlError> for Error {
    fn from(error: SqlError) -> Self {
        Self(error.to_string())
    }
}

impl From<String> for Error {
    fn from(message: String) -> Self {
        Self(message)
    }
}

/// An error that the server reported, or the loss of the connection to it; its [`SqlFields`] can be read directly.
#[derive(Clone, PartialEq, Eq)]
pub struct SqlError(Box<SqlFields>);

/// The fields of an error.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SqlFields {
    /// SQLSTATE; `08006` when the connection broke without a word from the server.
    pub code: String,
    /// ERROR, FATAL or PANIC; empty when the connection broke.
    pub severity: String,
    /// The primary message.
    pub message: String,
    /// DETAIL.
    pub detail: Option<String>,
    /// HINT.
    pub hint: Option<String>,
    /// CONTEXT.
    pub context: Option<String>,
}

impl SqlError {
    /// Whether the session is gone with this error.
    #[must_use]
    pub fn lost_connection(&self) -> bool {
        self.code.starts_with("08") || self.severity == "FATAL" || self.severity == "PANIC"
    }

    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Self(Box::new(SqlFields {
            code: "08006".into(),
            message: message.into(),
            ..SqlFields::default()
        }))
    }
}

impl std::ops::Deref for SqlError {
    type Target = SqlFields;

    fn deref(&self) -> &SqlFields {
        &self.0
    }
}

impl From<postgres::Error> for SqlError {
    fn from(error: postgres::Error) -> Self {
        let Some(db) = error.as_db_error() else {
            return Self::broken(error.to_string());
        };
        Self(Box::new(SqlFields {
            code: db.code().code().into(),
            severity: db.severity().into(),
            message: db.message().into(),
            detail: db.detail().map(Into::into),
            hint: db.hint().map(Into::into),
            context: db.where_().map(Into::into),
        }))
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.severity, self.code, self.message)?;
        let more = [
            ("DETAIL", &self.detail),
            ("HINT", &self.hint),
            ("CONTEXT", &self.context),
        ];
        for (label, text) in more {
            if let Some(text) = text {
                write!(f, "\n{label}: {text}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for SqlError {}
