//! Who is in the way of a clone: sessions and prepared transactions of the source.
#![deny(unsafe_code)]

use crate::storage::activity::{self, Session};
use crate::storage::proc::{self, ConnectedProcess, PreparedTransaction};
use crate::storage::role;
use pgrx::pg_sys::Oid;

/// Lines of a DETAIL before the rest is only counted.
const LINES_MAX: usize = 20;

/// What uses a database at one moment.
#[derive(Default)]
pub(crate) struct Blockers {
    processes: Vec<ConnectedProcess>,
    prepared: Vec<PreparedTransaction>,
}

impl Blockers {
    /// Looks. Processes first: see `proc::prepared_in` for why.
    pub(crate) fn of(database: Oid) -> Blockers {
        let processes = proc::connected_to(database);
        let prepared = proc::prepared_in(database);
        Blockers { processes, prepared }
    }

    /// Nobody, not even an autovacuum worker.
    pub(crate) fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.prepared.is_empty()
    }

    /// Nobody but processes that leave by themselves: autovacuum workers, which give way, and processes that do not
    /// report any activity, because they are just starting (and will wait for our lock) or just exiting.
    pub(crate) fn is_only_leaving(&self) -> bool {
        let pids: Vec<i32> = self
            .processes
            .iter()
            .filter(|process| !process.is_autovacuum)
            .map(|process| process.pid)
            .collect();
        self.prepared.is_empty() && (pids.is_empty() || activity::sessions(&pids).is_empty())
    }

    /// Whether an autovacuum worker is among them.
    pub(crate) fn has_autovacuum(&self) -> bool {
        self.processes.iter().any(|process| process.is_autovacuum)
    }

    /// Whether a prepared transaction is among them: only its owner can end it.
    pub(crate) fn has_prepared(&self) -> bool {
        !self.prepared.is_empty()
    }

    /// Asks the autovacuum workers to leave, as CREATE DATABASE does.
    pub(crate) fn send_autovacuum_away(&self) {
        for process in self.processes.iter().filter(|process| process.is_autovacuum) {
            proc::terminate(process.pid);
        }
    }

    /// The DETAIL of a refusal: a line each for what the caller may see, a count for the rest.
    pub(crate) fn detail(&self) -> String {
        let pids: Vec<i32> = self.processes.iter().map(|process| process.pid).collect();
        let sessions = activity::sessions(&pids);
        let (visible, hidden): (Vec<&Session>, Vec<&Session>) = sessions
            .iter()
            .partition(|session| role::sees_activity_of(session.role));
        let mut lines: Vec<String> = visible.into_iter().map(session_line).collect();
        let (mine, others): (Vec<_>, Vec<_>) = self
            .prepared
            .iter()
            .partition(|prepared| role::sees_activity_of(prepared.owner));
        lines.extend(mine.into_iter().map(prepared_line));
        // A process that has not reported itself yet is one that nobody sees details of.
        let unseen = hidden.len() + (pids.len() - sessions.len());
        render(lines, unseen, others.len())
    }
}

/// Puts lines and counts together.
fn render(mut lines: Vec<String>, hidden_sessions: usize, hidden_prepared: usize) -> String {
    if lines.len() > LINES_MAX {
        let more = lines.len() - LINES_MAX;
        lines.truncate(LINES_MAX);
        lines.push(format!("And {more} more."));
    }
    if hidden_sessions > 0 {
        lines.push(counted(
            hidden_sessions,
            "session of another role",
            "sessions of other roles",
        ));
    }
    if hidden_prepared > 0 {
        lines.push(counted(
            hidden_prepared,
            "prepared transaction of another role",
            "prepared transactions of other roles",
        ));
    }
    lines.join("\n")
}

fn counted(count: usize, one: &str, many: &str) -> String {
    if count == 1 {
        format!("There is 1 {one}.")
    } else {
        format!("There are {count} {many}.")
    }
}

fn session_line(session: &Session) -> String {
    let user = role::name_of(session.role).unwrap_or_else(|| "-".to_string());
    let state = if session.state.is_empty() {
        "running"
    } else {
        session.state
    };
    format!(
        "Process {}: user \"{user}\", application \"{}\", {}, {state} since {}.",
        session.pid, session.application, session.backend_type, session.since
    )
}

fn prepared_line(prepared: &PreparedTransaction) -> String {
    let user = role::name_of(prepared.owner).unwrap_or_else(|| "-".to_string());
    format!(
        "Prepared transaction \"{}\": user \"{user}\", since {}.",
        prepared.gid,
        proc::format_timestamp(prepared.prepared_at)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_not_be_seen_is_counted() {
        assert_eq!(render(vec!["A.".into()], 0, 0), "A.");
        assert_eq!(render(vec![], 1, 0), "There is 1 session of another role.");
        assert_eq!(
            render(vec!["A.".into()], 2, 1),
            "A.\nThere are 2 sessions of other roles.\nThere is 1 prepared transaction of another role."
        );
    }

    #[test]
    fn a_long_list_is_cut() {
        let lines = (0..25).map(|number| format!("{number}.")).collect();
        let text = render(lines, 0, 0);
        assert_eq!(text.lines().count(), LINES_MAX + 1);
        assert!(text.ends_with("And 5 more."));
    }
}
