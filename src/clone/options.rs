//! The options of a clone: what the caller wrote, checked before anything else happens.
#![deny(unsafe_code)]

use crate::error::{Error, Result, clipped};
use crate::storage::call::IntervalParts;
use crate::storage::server::NAME_BYTES;
use crate::storage::wal::Compression;
use std::time::Duration;

/// The arguments as the caller gave them; None is NULL.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) source: Option<String>,
    pub(crate) target: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) tablespace: Option<String>,
    pub(crate) connection_limit: Option<i32>,
    pub(crate) allow_connections: Option<bool>,
    pub(crate) is_template: Option<bool>,
    pub(crate) copy_settings: Option<bool>,
    pub(crate) copy_privileges: Option<bool>,
    pub(crate) copy_comment: Option<bool>,
    pub(crate) if_exists: Option<String>,
    pub(crate) on_busy: Option<String>,
    pub(crate) max_pause: Option<IntervalParts>,
    pub(crate) timeout: Option<IntervalParts>,
    pub(crate) unlogged: Option<String>,
    pub(crate) wal_compression: Option<String>,
    pub(crate) allow_during_backup: Option<bool>,
    pub(crate) log_progress: Option<bool>,
    pub(crate) strategy: Option<String>,
}

/// What to do about sessions and prepared transactions in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnBusy {
    /// Refuse at once.
    Error,
    /// Wait until they have left.
    Wait,
    /// End the sessions.
    Terminate,
}

/// How data gets into the clone and becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Copied files, every page logged.
    WalLog,
}

impl Strategy {
    /// The word in the result row.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Strategy::WalLog => "wal_log",
        }
    }
}

/// The options of a clone.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) source: String,
    pub(crate) target: String,
    pub(crate) owner: Option<String>,
    pub(crate) tablespace: Option<String>,
    pub(crate) connection_limit: i32,
    pub(crate) allow_connections: bool,
    pub(crate) is_template: bool,
    /// Whether an earlier clone of the target's name is dropped first.
    pub(crate) replace: bool,
    pub(crate) on_busy: OnBusy,
    pub(crate) timeout: Duration,
    /// None for the best that the server has.
    pub(crate) compression: Option<Compression>,
    pub(crate) log_progress: bool,
    pub(crate) strategy: Strategy,
}

const STRATEGIES: &[&str] = &["auto", "wal_log", "file_copy", "fsync"];
const ON_BUSY: &[&str] = &["error", "wait", "terminate", "online"];
const IF_EXISTS: &[&str] = &["error", "replace"];
const UNLOGGED: &[&str] = &["copy", "empty", "error"];
const COMPRESSIONS: &[&str] = &["auto", "off", "pglz", "lz4", "zstd"];
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// The longest interval, in milliseconds: what fits a wait of the backend.
const LONGEST_MS: i128 = 24 * 24 * 3600 * 1000;

impl Arguments {
    /// Checks every argument on its own. Nothing outside has been looked at yet.
    pub(crate) fn check(self) -> Result<Options> {
        self.refuse_later_options()?;
        let strategy = word("strategy", self.strategy, STRATEGIES, "auto")?;
        if matches!(strategy.as_str(), "file_copy" | "fsync") {
            return Err(Error::OptionNotSupported {
                option: "strategy",
                value: strategy,
            });
        }
        let connection_limit = self.connection_limit.unwrap_or(-1);
        if connection_limit < -1 {
            return Err(Error::InvalidConnectionLimit {
                limit: connection_limit,
            });
        }
        // Its work lands with the online clone; a value that cannot be one is refused from the start.
        interval("max_pause", self.max_pause, Duration::from_millis(500))?;
        Ok(Options {
            source: database_name("source", self.source)?,
            target: database_name("target", self.target)?,
            owner: self.owner,
            tablespace: self.tablespace,
            connection_limit,
            allow_connections: self.allow_connections.unwrap_or(true),
            is_template: self.is_template.unwrap_or(false),
            replace: word("if_exists", self.if_exists, IF_EXISTS, "error")? == "replace",
            on_busy: on_busy(self.on_busy)?,
            timeout: interval("timeout", self.timeout, DEFAULT_TIMEOUT)?,
            compression: compression(self.wal_compression)?,
            log_progress: self.log_progress.unwrap_or(false),
            strategy: Strategy::WalLog,
        })
    }

    /// The options that this version knows but does not have.
    fn refuse_later_options(&self) -> Result<()> {
        for (option, value) in [
            ("copy_settings", self.copy_settings),
            ("copy_privileges", self.copy_privileges),
            ("copy_comment", self.copy_comment),
            ("allow_during_backup", self.allow_during_backup),
        ] {
            if value == Some(true) {
                return Err(Error::OptionNotSupported {
                    option,
                    value: "true".to_string(),
                });
            }
        }
        let unlogged = word("unlogged", self.unlogged.clone(), UNLOGGED, "copy")?;
        if unlogged != "copy" {
            return Err(Error::OptionNotSupported {
                option: "unlogged",
                value: unlogged,
            });
        }
        Ok(())
    }
}

/// A database name: there, not empty, and no longer than a name may be. Truncating it, as SQL does with identifiers,
/// would make another database than the one that was asked for.
fn database_name(argument: &'static str, value: Option<String>) -> Result<String> {
    let name = value.ok_or(Error::NullArgument { argument })?;
    if name.is_empty() {
        return Err(Error::EmptyName { argument });
    }
    if name.len() > NAME_BYTES {
        let bytes = name.len();
        return Err(Error::NameTooLong {
            argument,
            name: clipped(&name),
            bytes,
            limit: NAME_BYTES,
        });
    }
    Ok(name)
}

/// One of the words that an option knows, in lower case; NULL is the default.
fn word(
    option: &'static str,
    value: Option<String>,
    valid: &'static [&'static str],
    default: &str,
) -> Result<String> {
    let Some(value) = value else {
        return Ok(default.to_string());
    };
    let lower = value.to_ascii_lowercase();
    if valid.contains(&lower.as_str()) {
        Ok(lower)
    } else {
        Err(Error::InvalidOption {
            option,
            value: clipped(&value),
            valid,
        })
    }
}

fn on_busy(value: Option<String>) -> Result<OnBusy> {
    let value = word("on_busy", value, ON_BUSY, "error")?;
    match value.as_str() {
        "wait" => Ok(OnBusy::Wait),
        "terminate" => Ok(OnBusy::Terminate),
        "online" => Err(Error::OptionNotSupported {
            option: "on_busy",
            value,
        }),
        _ => Ok(OnBusy::Error),
    }
}

fn compression(value: Option<String>) -> Result<Option<Compression>> {
    Ok(
        match word("wal_compression", value, COMPRESSIONS, "auto")?.as_str() {
            "off" => Some(Compression::Off),
            "pglz" => Some(Compression::Pglz),
            "lz4" => Some(Compression::Lz4),
            "zstd" => Some(Compression::Zstd),
            _ => None,
        },
    )
}

/// An interval as a time to wait: months of 30 days, as PostgreSQL counts them in an epoch.
fn interval(option: &'static str, value: Option<IntervalParts>, default: Duration) -> Result<Duration> {
    let Some(parts) = value else { return Ok(default) };
    let refuse = |problem| Err(Error::InvalidInterval { option, problem });
    // 17 and later write infinity as the extreme of all three parts.
    let infinite = [
        IntervalParts {
            months: i32::MAX,
            days: i32::MAX,
            microseconds: i64::MAX,
        },
        IntervalParts {
            months: i32::MIN,
            days: i32::MIN,
            microseconds: i64::MIN,
        },
    ];
    if infinite.contains(&parts) {
        return refuse("is infinite");
    }
    let days = i128::from(parts.months) * 30 + i128::from(parts.days);
    let microseconds = days * 86_400_000_000 + i128::from(parts.microseconds);
    if microseconds < 0 {
        return refuse("is negative");
    }
    if microseconds / 1000 > LONGEST_MS {
        return refuse("is longer than 24 days");
    }
    Ok(Duration::from_micros(microseconds as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments() -> Arguments {
        Arguments {
            source: Some("shop".into()),
            target: Some("copy".into()),
            ..Arguments::default()
        }
    }

    fn parts(days: i32, microseconds: i64) -> Option<IntervalParts> {
        Some(IntervalParts {
            months: 0,
            days,
            microseconds,
        })
    }

    #[test]
    fn the_defaults_are_cores() {
        let options = arguments().check().expect("the defaults are valid");
        assert_eq!(
            (
                options.connection_limit,
                options.allow_connections,
                options.is_template
            ),
            (-1, true, false)
        );
        assert_eq!(options.on_busy, OnBusy::Error);
        assert_eq!(options.timeout, DEFAULT_TIMEOUT);
        assert_eq!(options.compression, None);
        assert!(!options.replace);
    }

    #[test]
    fn words_are_checked_and_case_does_not_matter() {
        let options = Arguments {
            on_busy: Some("WAIT".into()),
            ..arguments()
        }
        .check();
        assert_eq!(options.expect("a known word").on_busy, OnBusy::Wait);
        let refused = Arguments {
            on_busy: Some("hope".into()),
            ..arguments()
        }
        .check();
        assert!(matches!(
            refused,
            Err(Error::InvalidOption {
                option: "on_busy",
                ..
            })
        ));
    }

    #[test]
    fn later_options_are_refused_by_name() {
        for later in [
            Arguments {
                strategy: Some("file_copy".into()),
                ..arguments()
            },
            Arguments {
                strategy: Some("fsync".into()),
                ..arguments()
            },
            Arguments {
                on_busy: Some("online".into()),
                ..arguments()
            },
            Arguments {
                unlogged: Some("empty".into()),
                ..arguments()
            },
            Arguments {
                copy_settings: Some(true),
                ..arguments()
            },
            Arguments {
                copy_privileges: Some(true),
                ..arguments()
            },
            Arguments {
                copy_comment: Some(true),
                ..arguments()
            },
            Arguments {
                allow_during_backup: Some(true),
                ..arguments()
            },
        ] {
            assert!(matches!(later.check(), Err(Error::OptionNotSupported { .. })));
        }
        assert!(
            Arguments {
                copy_settings: Some(false),
                ..arguments()
            }
            .check()
            .is_ok()
        );
    }

    #[test]
    fn names_have_a_length() {
        let named = |name: String| {
            Arguments {
                target: Some(name),
                ..arguments()
            }
            .check()
        };
        assert!(named("x".repeat(63)).is_ok());
        assert!(matches!(named("x".repeat(64)), Err(Error::NameTooLong { .. })));
        assert!(matches!(named("ü".repeat(32)), Err(Error::NameTooLong { .. })));
        assert!(matches!(
            named(String::new()),
            Err(Error::EmptyName { argument: "target" })
        ));
        let missing = Arguments {
            source: None,
            ..arguments()
        }
        .check();
        assert!(matches!(missing, Err(Error::NullArgument { argument: "source" })));
    }

    #[test]
    fn intervals_have_limits() {
        let waiting = |timeout| {
            Arguments {
                timeout,
                ..arguments()
            }
            .check()
            .map(|options| options.timeout)
        };
        assert_eq!(
            waiting(parts(0, 1_500_000)).expect("valid"),
            Duration::from_millis(1500)
        );
        assert_eq!(
            waiting(parts(24, 0)).expect("valid"),
            Duration::from_secs(24 * 86_400)
        );
        assert!(matches!(
            waiting(parts(25, 0)),
            Err(Error::InvalidInterval {
                option: "timeout",
                ..
            })
        ));
        assert!(waiting(parts(0, -1)).is_err());
        assert!(
            waiting(Some(IntervalParts {
                months: 1,
                days: 0,
                microseconds: 0
            }))
            .is_err()
        );
        let infinity = IntervalParts {
            months: i32::MAX,
            days: i32::MAX,
            microseconds: i64::MAX,
        };
        assert!(waiting(Some(infinity)).is_err());
    }

    #[test]
    fn a_connection_limit_is_minus_one_or_more() {
        assert!(
            Arguments {
                connection_limit: Some(-2),
                ..arguments()
            }
            .check()
            .is_err()
        );
        assert!(
            Arguments {
                connection_limit: Some(0),
                ..arguments()
            }
            .check()
            .is_ok()
        );
    }
}
