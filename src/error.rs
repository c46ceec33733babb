//! The catalogue of everything that blockwise itself refuses or reports as failed.
//!
//! One variant an error, each with SQLSTATE, primary message, and where they help DETAIL and HINT, in the style of
//! PostgreSQL's own messages. Where core's CREATE DATABASE has the same error, the SQLSTATE is core's. Errors that
//! the backend raises by itself pass through unchanged and are not listed here.
#![deny(unsafe_code)]

use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use std::io;
use std::path::{Path, PathBuf};

/// The result of everything that can fail without the backend having raised the error.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// An error of blockwise's own.
#[derive(Debug)]
pub(crate) enum Error {
    /// An argument that may not be NULL.
    NullArgument { argument: &'static str },
    /// A database name that is empty.
    EmptyName { argument: &'static str },
    /// A database name of more bytes than a name has.
    NameTooLong {
        argument: &'static str,
        name: String,
        bytes: usize,
        limit: usize,
    },
    /// A word that the option does not know.
    InvalidOption {
        option: &'static str,
        value: String,
        valid: &'static [&'static str],
    },
    /// A connection limit below -1.
    InvalidConnectionLimit { limit: i32 },
    /// An interval that cannot be waited for.
    InvalidInterval {
        option: &'static str,
        problem: &'static str,
    },
    /// An option of the full signature whose work is not in this version.
    OptionNotSupported { option: &'static str, value: String },
    /// A compression method that the server was built without.
    CompressionNotBuilt { method: &'static str },
    /// The procedure was called where it cannot commit.
    CannotCommit,
    /// The caller has not the right to create databases.
    MayNotCreateDatabase,
    /// The caller may not copy this source.
    MayNotCopyDatabase { name: String },
    /// The caller may not create in the tablespace.
    MayNotUseTablespace { name: String },
    /// The function is for superusers.
    MustBeSuperuser { function: &'static str },
    /// The source does not exist.
    UndefinedDatabase { name: String },
    /// The source is the remains of an interrupted DROP DATABASE or clone.
    InvalidSource { name: String },
    /// The target's name is taken.
    DuplicateDatabase { name: String },
    /// `if_exists => 'replace'` found a database that is not the caller's own clone.
    NotOwnClone { name: String },
    /// `if_exists => 'replace'` with the source itself as target.
    SourceIsTarget { name: String },
    /// Sessions or prepared transactions use the source.
    SourceBusy {
        name: String,
        detail: String,
        waited_ms: Option<u64>,
    },
    /// A locale that the operating system does not know.
    InvalidLocale { category: &'static str, name: String },
    /// The source has a collation version and the library reports none.
    NoCollationVersion { name: String },
    /// The source's collation version is not the library's.
    CollationMismatch {
        name: String,
        recorded: String,
        actual: String,
    },
    /// pg_global as default tablespace.
    GlobalTablespace,
    /// The source already has relations in the new default tablespace.
    TablespaceConflict { tablespace: String, source: String },
    /// A page that fails verification, twice.
    CorruptPage {
        relation: u32,
        path: PathBuf,
        block: u32,
    },
    /// A file call failed.
    File {
        action: &'static str,
        path: PathBuf,
        cause: io::Error,
    },
    /// A row of pg_class that cannot be read.
    CorruptCatalog {
        path: PathBuf,
        block: u32,
        problem: &'static str,
    },
    /// The clone's row was removed or made valid by somebody else while we copied.
    CloneVanished { name: String },
    /// The server is older than this build supports.
    ServerTooOld { server: i32, needed: i32 },
    /// The server has another block or segment size than this build.
    OtherLayout { setting: &'static str },
    /// A fault point fired (feature `testing`).
    #[cfg(feature = "testing")]
    Fault { point: &'static str },
}

/// What an error looks like to the user.
struct Shape {
    code: PgSqlErrorCode,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
}

impl Shape {
    fn new(code: PgSqlErrorCode, message: impl Into<String>) -> Shape {
        Shape {
            code,
            message: message.into(),
            detail: None,
            hint: None,
        }
    }

    fn detail(mut self, detail: impl Into<String>) -> Shape {
        self.detail = Some(detail.into());
        self
    }

    fn hint(mut self, hint: impl Into<String>) -> Shape {
        self.hint = Some(hint.into());
        self
    }
}

impl Error {
    /// A failed file call, with the path it was about.
    pub(crate) fn file(action: &'static str, path: &Path, cause: io::Error) -> Error {
        Error::File {
            action,
            path: path.to_path_buf(),
            cause,
        }
    }

    /// Hands the error to the backend. Does not return: the backend's ERROR unwinds the stack.
    pub(crate) fn raise(self) -> ! {
        let shape = self.shape();
        let mut report = ErrorReport::new(shape.code, shape.message, "blockwise");
        if let Some(detail) = shape.detail {
            report = report.set_detail(detail);
        }
        if let Some(hint) = shape.hint {
            report = report.set_hint(hint);
        }
        report.report(PgLogLevel::ERROR);
        unreachable!("an error report of level ERROR unwinds")
    }

    fn shape(&self) -> Shape {
        match self {
            Error::NullArgument { .. }
            | Error::EmptyName { .. }
            | Error::NameTooLong { .. }
            | Error::InvalidOption { .. }
            | Error::InvalidConnectionLimit { .. }
            | Error::InvalidInterval { .. }
            | Error::OptionNotSupported { .. }
            | Error::CompressionNotBuilt { .. } => self.argument_shape(),
            Error::CannotCommit
            | Error::MayNotCreateDatabase
            | Error::MayNotCopyDatabase { .. }
            | Error::MayNotUseTablespace { .. }
            | Error::MustBeSuperuser { .. }
            | Error::NotOwnClone { .. } => self.right_shape(),
            Error::UndefinedDatabase { .. }
            | Error::InvalidSource { .. }
            | Error::DuplicateDatabase { .. }
            | Error::SourceIsTarget { .. }
            | Error::SourceBusy { .. }
            | Error::CloneVanished { .. } => self.database_shape(),
            Error::InvalidLocale { .. }
            | Error::NoCollationVersion { .. }
            | Error::CollationMismatch { .. }
            | Error::GlobalTablespace
            | Error::TablespaceConflict { .. } => self.property_shape(),
            _ => self.storage_shape(),
        }
    }

    fn argument_shape(&self) -> Shape {
        use PgSqlErrorCode as Code;
        match self {
            Error::NullArgument { argument } => Shape::new(
                Code::ERRCODE_NULL_VALUE_NOT_ALLOWED,
                format!("argument \"{argument}\" must not be null"),
            ),
            Error::EmptyName { argument } => Shape::new(
                Code::ERRCODE_INVALID_NAME,
                format!("argument \"{argument}\" must not be empty"),
            )
            .detail("A database name has at least one character."),
            Error::NameTooLong {
                argument,
                name,
                bytes,
                limit,
            } => Shape::new(
                Code::ERRCODE_NAME_TOO_LONG,
                format!("database name \"{name}\" in argument \"{argument}\" is too long"),
            )
            .detail(format!("A name has at most {limit} bytes; this one has {bytes}.")),
            Error::InvalidOption { option, value, valid } => Shape::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("invalid value for option \"{option}\": \"{value}\""),
            )
            .hint(format!("Valid values are {}.", quoted_list(valid))),
            Error::InvalidConnectionLimit { limit } => Shape::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("invalid connection limit: {limit}"),
            )
            .hint("Use -1 for no limit, or a number greater than or equal to zero."),
            Error::InvalidInterval { option, problem } => Shape::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("invalid value for option \"{option}\": the interval {problem}"),
            )
            .hint("Use an interval from zero to 24 days."),
            Error::OptionNotSupported { option, value } => Shape::new(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("option \"{option}\" does not support \"{value}\" in this version of blockwise"),
            ),
            Error::CompressionNotBuilt { method } => Shape::new(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("WAL compression method \"{method}\" is not supported by this server"),
            )
            .detail(format!("The server was built without support for {method}."))
            .hint("Use \"auto\", which takes the best method that the server has."),
            _ => self.storage_shape(),
        }
    }

    fn right_shape(&self) -> Shape {
        use PgSqlErrorCode as Code;
        match self {
            Error::CannotCommit => Shape::new(
                Code::ERRCODE_ACTIVE_SQL_TRANSACTION,
                "blockwise.clone_database() cannot run inside a transaction block or a function",
            )
            .detail("A clone is made in several transactions of its own, as CREATE DATABASE cannot be rolled back.")
            .hint("Use CALL outside a transaction block, in DO, or in a procedure that may commit."),
            Error::MayNotCreateDatabase => {
                Shape::new(Code::ERRCODE_INSUFFICIENT_PRIVILEGE, "permission denied to create database")
                    .hint("The role needs the CREATEDB attribute.")
            }
            Error::MayNotCopyDatabase { name } => Shape::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied to copy database \"{name}\""),
            )
            .detail("Only the owner or a superuser can copy a database that is not marked as a template."),
            Error::MayNotUseTablespace { name } => Shape::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied for tablespace {name}"),
            ),
            Error::MustBeSuperuser { function } => Shape::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("must be superuser to use {function}()"),
            ),
            Error::NotOwnClone { name } => Shape::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("cannot replace database \"{name}\""),
            )
            .detail("Only a clone that blockwise made, and that belongs to the caller, is replaced.")
            .hint("Use another name, or drop the database yourself."),
            _ => self.storage_shape(),
        }
    }

    fn database_shape(&self) -> Shape {
        use PgSqlErrorCode as Code;
        match self {
            Error::UndefinedDatabase { name } => Shape::new(
                Code::ERRCODE_INVALID_CATALOG_NAME,
                format!("source database \"{name}\" does not exist"),
            ),
            Error::InvalidSource { name } => Shape::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("cannot clone invalid database \"{name}\""),
            )
            .detail("It is what an interrupted DROP DATABASE or an unfinished clone left behind.")
            .hint("Use DROP DATABASE to drop invalid databases."),
            Error::DuplicateDatabase { name } => Shape::new(
                Code::ERRCODE_DUPLICATE_DATABASE,
                format!("database \"{name}\" already exists"),
            ),
            Error::SourceIsTarget { name } => Shape::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("database \"{name}\" cannot be replaced by a clone of itself"),
            ),
            Error::SourceBusy {
                name,
                detail,
                waited_ms,
            } => {
                let shape = Shape::new(
                    Code::ERRCODE_OBJECT_IN_USE,
                    match waited_ms {
                        None => format!("source database \"{name}\" is being accessed by other users"),
                        Some(ms) => {
                            format!("source database \"{name}\" is still being accessed after {ms} ms")
                        }
                    },
                )
                .detail(detail.clone());
                match waited_ms {
                    None => shape.hint(
                        "Use on_busy => 'wait' to wait for them to leave, or 'terminate' to end those sessions.",
                    ),
                    Some(_) => shape,
                }
            }
            Error::CloneVanished { name } => Shape::new(
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("unfinished clone \"{name}\" was dropped or changed by another session"),
            ),
            _ => self.storage_shape(),
        }
    }

    fn property_shape(&self) -> Shape {
        use PgSqlErrorCode as Code;
        match self {
            Error::InvalidLocale { category, name } => Shape::new(
                Code::ERRCODE_WRONG_OBJECT_TYPE,
                format!("invalid {category} locale name: \"{name}\""),
            )
            .detail("The source database uses a locale that this operating system does not have."),
            Error::NoCollationVersion { name } => Shape::new(
                Code::ERRCODE_INTERNAL_ERROR,
                format!(
                    "source database \"{name}\" has a collation version, but no actual collation version could be determined"
                ),
            ),
            Error::CollationMismatch { name, recorded, actual } => Shape::new(
                Code::ERRCODE_INTERNAL_ERROR,
                format!("source database \"{name}\" has a collation version mismatch"),
            )
            .detail(format!(
                "The source database was created using collation version {recorded}, but the operating system provides version {actual}."
            ))
            .hint(format!(
                "Rebuild all objects in the source database that use the default collation and run ALTER DATABASE {} REFRESH COLLATION VERSION, or build PostgreSQL with the right library version.",
                quoted_identifier(name)
            )),
            Error::GlobalTablespace => Shape::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                "pg_global cannot be used as default tablespace",
            ),
            Error::TablespaceConflict { tablespace, source } => Shape::new(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("cannot assign new default tablespace \"{tablespace}\""),
            )
            .detail(format!(
                "There is a conflict because database \"{source}\" already has some tables in this tablespace."
            )),
            _ => self.storage_shape(),
        }
    }

    fn storage_shape(&self) -> Shape {
        use PgSqlErrorCode as Code;
        match self {
            Error::CorruptPage { relation, path, block } => Shape::new(
                Code::ERRCODE_DATA_CORRUPTED,
                format!("invalid page in block {block} of relation file \"{}\"", path.display()),
            )
            .detail(format!(
                "The page belongs to the relation with OID {relation} of the source database. It failed verification twice."
            ))
            .hint("Repair or restore the source database first; nothing of the clone was kept."),
            Error::File { action, path, cause } => Shape::new(
                file_error_code(cause),
                format!("could not {action} \"{}\": {}", path.display(), plain(cause)),
            ),
            Error::CorruptCatalog { path, block, problem } => Shape::new(
                Code::ERRCODE_DATA_CORRUPTED,
                format!("could not read pg_class of the source database: {problem}"),
            )
            .detail(format!("Block {block} of file \"{}\".", path.display())),
            Error::ServerTooOld { server, needed } => Shape::new(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("this build of blockwise needs server version {needed} or later"),
            )
            .detail(format!("The server's version is {server}."))
            .hint("Install the current minor release, or build blockwise for this server."),
            Error::OtherLayout { setting } => Shape::new(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("this build of blockwise is for servers with another {setting}"),
            )
            .hint("Build blockwise for this server."),
            #[cfg(feature = "testing")]
            Error::Fault { point } => {
                Shape::new(Code::ERRCODE_INTERNAL_ERROR, format!("fault point \"{point}\" was reached"))
            }
            other => Shape::new(Code::ERRCODE_INTERNAL_ERROR, format!("unexpected error: {other:?}")),
        }
    }
}

/// Warns that the remains of a failed clone could not be removed: the error that made it fail comes after this.
pub(crate) fn warn_of_leftovers(name: &str, cause: &str) {
    ereport!(
        WARNING,
        PgSqlErrorCode::ERRCODE_WARNING,
        format!("could not remove unfinished clone \"{name}\": {cause}"),
        "Use DROP DATABASE to remove it."
    );
}

/// `"a", "b", and "c"`, as PostgreSQL's hints list valid values.
fn quoted_list(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => format!("\"{one}\""),
        [first, second] => format!("\"{first}\" and \"{second}\""),
        [start @ .., last] => {
            let start: Vec<String> = start.iter().map(|word| format!("\"{word}\"")).collect();
            format!("{}, and \"{last}\"", start.join(", "))
        }
    }
}

/// A name as SQL takes it, whatever it is made of.
fn quoted_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// As much of a value as belongs into a message.
pub(crate) fn clipped(value: &str) -> String {
    const BYTES_MAX: usize = 63;
    if value.len() <= BYTES_MAX {
        return value.to_string();
    }
    let end = value.floor_char_boundary(BYTES_MAX);
    format!("{}...", &value[..end])
}

/// The operating system's text without Rust's "(os error N)".
fn plain(cause: &io::Error) -> String {
    let text = cause.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}

/// The SQLSTATE for a failed file call: errcode_for_file_access() of elog.c, by errno.
fn file_error_code(cause: &io::Error) -> PgSqlErrorCode {
    use PgSqlErrorCode as Code;
    match cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::EROFS) => Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
        Some(libc::ENOENT) => Code::ERRCODE_UNDEFINED_FILE,
        Some(libc::EEXIST) => Code::ERRCODE_DUPLICATE_FILE,
        Some(libc::ENOTDIR | libc::EISDIR | libc::ENOTEMPTY) => Code::ERRCODE_WRONG_OBJECT_TYPE,
        Some(libc::ENOSPC | libc::EDQUOT) => Code::ERRCODE_DISK_FULL,
        Some(libc::ENOMEM) => Code::ERRCODE_OUT_OF_MEMORY,
        Some(libc::ENFILE | libc::EMFILE) => Code::ERRCODE_INSUFFICIENT_RESOURCES,
        Some(libc::EIO) => Code::ERRCODE_IO_ERROR,
        _ => Code::ERRCODE_INTERNAL_ERROR,
    }
}

#[cfg(test)]
mod tests;
