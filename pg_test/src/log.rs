//! The scan of the server log: what may stand there, and what fails a test.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex};

use regex::Regex;

use crate::cluster::lock;
use crate::{Notice, SqlError};

/// What follows from the harness's own doings: stops, crashes, kills, connections tried too early.
const OWN_DOINGS: &[&str] = &[
    "terminating connection because of crash of another server process",
    "terminating connection due to unexpected postmaster exit",
    "terminating connection due to administrator command",
    "terminating connection due to immediate shutdown command",
    "terminating background worker .* due to administrator command",
    "terminating walreceiver (process )?due to administrator command",
    "the database system is (starting up|shutting down|in recovery mode|not yet accepting connections|not accepting connections)",
    "could not connect to the primary server",
    "could not receive data from WAL stream",
    "could not send end-of-streaming message to primary",
    "streaming replication receiver .* could not connect",
    "issuing SIGKILL to recalcitrant children",
    // Replay of a DROP DATABASE whose directory is gone already.
    "startup \\S+: WARNING:  could not open directory \"(base|pg_tblspc/[^\"]*)/\\d+\": No such file or directory",
    "startup \\S+: WARNING:  some useless files may be left behind in old database directory",
    // Said at the end of recovery about every tablespace in the data folder (allow_in_place_tablespaces).
    "unexpected directory entry \"\\d+\" found in pg_tblspc/?$",
];

/// Never allowed, whatever the rules say.
const NEVER: &[&str] = &[
    "TRAP:",
    "refcount leak",
    "reference leak",
    "resource was not closed",
    "stuck spinlock",
];

static LINE: LazyLock<Regex> = LazyLock::new(|| {
    compile(r"^\d{4}-\d\d-\d\d [\d:.]+ \S+ \[\d+\] [^:]*: (PANIC|FATAL|ERROR|WARNING):  (.*)$")
});

/// Which lines of a log are no complaint.
#[derive(Clone, Debug)]
pub struct LogRules {
    allowed: Vec<Regex>,
}

impl Default for LogRules {
    fn default() -> Self {
        Self {
            allowed: OWN_DOINGS.iter().map(|pattern| compile(pattern)).collect(),
        }
    }
}

impl LogRules {
    /// Allows lines that match this regular expression; a PANIC only if the expression says so.
    ///
    /// # Panics
    /// When the expression is not one.
    pub fn allow(&mut self, pattern: &str) {
        self.allowed.push(compile(pattern));
    }
}

/// The errors and warnings that the server told a session of ours about: those stand in the log by right.
#[derive(Debug, Default)]
pub(crate) struct Delivered(Mutex<HashSet<String>>);

impl Delivered {
    pub(crate) fn error(&self, error: &SqlError) {
        self.add(&error.message);
    }

    pub(crate) fn notice(&self, notice: &Notice) {
        self.add(&notice.message);
    }

    fn add(&self, message: &str) {
        lock(&self.0).insert(first_line(message).to_owned());
    }

    fn has(&self, message: &str) -> bool {
        lock(&self.0).contains(message)
    }
}

/// The lines of `log` that nothing explains.
pub(crate) fn complaints(log: &str, rules: &LogRules, delivered: &Delivered) -> Vec<String> {
    log.lines()
        .filter(|line| is_complaint(line, rules, delivered))
        .map(Into::into)
        .collect()
}

fn is_complaint(line: &str, rules: &LogRules, delivered: &Delivered) -> bool {
    if NEVER.iter().any(|word| line.contains(word)) {
        return true;
    }
    let Some(found) = LINE.captures(line) else {
        return false;
    };
    let panic = &found[1] == "PANIC";
    let covers = |rule: &Regex| rule.is_match(line) && (!panic || rule.as_str().contains("PANIC"));
    !rules.allowed.iter().any(covers) && (panic || !delivered.has(&found[2]))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|error| panic!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::{Delivered, LogRules, complaints};
    use crate::SqlError;

    const LOG: &str = "\
2026-01-02 03:04:05.678 UTC [77] client backend 22012: ERROR:  division by zero
2026-01-02 03:04:05.678 UTC [77] client backend 22012: STATEMENT:  select 1/0
2026-01-02 03:04:05.678 UTC [78] checkpointer 00000: PANIC:  could not fsync file
2026-01-02 03:04:05.678 UTC [79] client backend 57P01: FATAL:  terminating connection due to administrator command
\tERROR:  this is the middle of a statement
TRAP: failed Assert(\"x\")
";

    fn found(rules: &LogRules, delivered: &Delivered) -> Vec<String> {
        complaints(LOG, rules, delivered)
    }

    #[test]
    fn only_unexplained_lines_complain() {
        let delivered = Delivered::default();
        let lines = found(&LogRules::default(), &delivered);
        assert_eq!(lines.len(), 3, "{lines:?}");
        delivered.error(&SqlError::broken("division by zero"));
        delivered.error(&SqlError::broken("could not fsync file"));
        let lines = found(&LogRules::default(), &delivered);
        assert!(
            lines.iter().any(|line| line.contains("PANIC")),
            "a panic is never explained by a client's error"
        );
        assert_eq!(lines.len(), 2, "{lines:?}");
    }

    #[test]
    fn a_rule_allows_a_line_but_no_failed_assertion_and_no_panic_by_chance() {
        let mut rules = LogRules::default();
        rules.allow("could not fsync|division|TRAP");
        let lines = found(&rules, &Delivered::default());
        assert!(lines[0].contains("PANIC") && lines.len() == 2, "{lines:?}");
        rules.allow("PANIC:  could not fsync");
        let lines = found(&rules, &Delivered::default());
        assert_eq!(lines, ["TRAP: failed Assert(\"x\")"]);
    }
}
