//! What backends say about themselves: the sessions in a database, and the progress of clones.
//!
//! Progress lives in the backend's own status slot, the one that core's pg_stat_progress views use, under a command
//! number that core does not know. So it needs no shared memory of ours and no preloading, costs a few stores, and is
//! gone with the backend. An abort clears the slot.

use super::proc::format_timestamp;
use crate::compat;
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;
use std::ffi::{CStr, c_int};

/// The command number of our progress entries: "blkw", far from core's enum.
const PROGRESS_COMMAND: pg_sys::ProgressCommandType::Type = 0x626c_6b77;

/// A counter of a progress entry: its index in the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgressField {
    /// A marker that makes an entry ours beyond doubt.
    Marker = 0,
    /// The phase's number.
    Phase = 1,
    /// The clone's OID, 0 before it has one.
    Target = 2,
    /// Relations copied.
    RelationsDone = 3,
    /// Relations to copy.
    RelationsTotal = 4,
    /// Bytes copied.
    BytesDone = 5,
    /// Bytes to copy, as counted at the start.
    BytesTotal = 6,
    /// When the clone began, in microseconds since 2000-01-01.
    Started = 7,
}

const MARKER: i64 = 0x626c_6f63_6b77_6973;

/// A progress entry as another backend wrote it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgressEntry {
    /// The process that works.
    pub(crate) pid: i32,
    /// The role it logged in as.
    pub(crate) role: Oid,
    /// The source.
    pub(crate) source: Oid,
    counters: [i64; 8],
}

impl ProgressEntry {
    /// One of the counters.
    pub(crate) fn get(&self, field: ProgressField) -> i64 {
        self.counters[field as usize]
    }
}

/// Opens this backend's progress entry. With the setting `track_activities` off there is none, and nothing happens.
pub(crate) fn start_progress(source: Oid, started: i64) {
    // SAFETY: writes this backend's own slot.
    unsafe { pg_sys::pgstat_progress_start_command(PROGRESS_COMMAND, source) };
    set_progress(ProgressField::Marker, MARKER);
    set_progress(ProgressField::Started, started);
}

/// Sets a counter of this backend's entry.
pub(crate) fn set_progress(field: ProgressField, value: i64) {
    // SAFETY: writes this backend's own slot; the index is below PGSTAT_NUM_PROGRESS_PARAM.
    unsafe { pg_sys::pgstat_progress_update_param(field as c_int, value) };
}

/// Closes this backend's entry.
pub(crate) fn end_progress() {
    // SAFETY: writes this backend's own slot.
    unsafe { pg_sys::pgstat_progress_end_command() };
}

/// Runs `visit` on the status of every backend, as of now.
fn for_each_backend(mut visit: impl FnMut(&pg_sys::PgBackendStatus)) {
    // SAFETY: the local snapshot is taken afresh and lives in the backend's own memory until it is cleared; entries
    // are read only.
    unsafe {
        pg_sys::pgstat_clear_backend_activity_snapshot();
        for index in 1..=pg_sys::pgstat_fetch_stat_numbackends() {
            let entry = compat::backend_status(index);
            if let Some(entry) = entry.as_ref() {
                visit(&entry.backendStatus);
            }
        }
    }
}

/// Every progress entry of ours.
pub(crate) fn progress_entries() -> Vec<ProgressEntry> {
    let mut found = Vec::new();
    for_each_backend(|status| {
        if status.st_procpid == 0 || status.st_progress_command != PROGRESS_COMMAND {
            return;
        }
        let mut counters = [0; 8];
        counters.copy_from_slice(&status.st_progress_param[..8]);
        if counters[ProgressField::Marker as usize] == MARKER {
            found.push(ProgressEntry {
                pid: status.st_procpid,
                role: status.st_userid,
                source: status.st_progress_command_target,
                counters,
            });
        }
    });
    found
}

/// When the oldest transaction that may write in a database began, in microseconds since 2000-01-01; with OID 0, of
/// the whole server. Autovacuum workers and other processes without a client count too. A process that does not
/// report its activity (`track_activities` off) may have a transaction of any age: then it is the earliest time.
pub(crate) fn oldest_transaction_in(database: Oid) -> Option<i64> {
    let mut oldest = None;
    // SAFETY: set at backend start.
    let own_pid = unsafe { pg_sys::MyProcPid };
    for_each_backend(|status| {
        let begun = match status.st_state {
            pg_sys::BackendState::STATE_DISABLED => i64::MIN,
            _ => status.st_xact_start_timestamp,
        };
        let counts = database == pg_sys::InvalidOid || status.st_databaseid == database;
        if counts && begun != 0 && status.st_procpid != own_pid {
            oldest = Some(oldest.map_or(begun, |before: i64| before.min(begun)));
        }
    });
    oldest
}

/// A session as pg_stat_activity shows it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// Its process id.
    pub(crate) pid: i32,
    /// The role it logged in as.
    pub(crate) role: Oid,
    /// application_name.
    pub(crate) application: String,
    /// backend_type.
    pub(crate) backend_type: String,
    /// state, empty for processes that have none.
    pub(crate) state: &'static str,
    /// Since when it is in that state, as the server writes a time.
    pub(crate) since: String,
}

/// The sessions with these process ids. One that has not reported itself yet is missing.
pub(crate) fn sessions(pids: &[i32]) -> Vec<Session> {
    let mut found = Vec::new();
    for_each_backend(|status| {
        if pids.contains(&status.st_procpid) {
            found.push(session(status));
        }
    });
    found
}

fn session(status: &pg_sys::PgBackendStatus) -> Session {
    let since = match status.st_state_start_timestamp {
        0 => status.st_proc_start_timestamp,
        at => at,
    };
    // SAFETY: the local copy's strings are NUL-terminated; the type's name is a static string.
    let (application, backend_type) = unsafe {
        (
            c_string(status.st_appname),
            c_string(pg_sys::GetBackendTypeDesc(status.st_backendType)),
        )
    };
    Session {
        pid: status.st_procpid,
        role: status.st_userid,
        application,
        backend_type,
        state: state_name(status.st_state),
        since: format_timestamp(since),
    }
}

/// # Safety
/// `text` is NULL or NUL-terminated.
unsafe fn c_string(text: *const std::ffi::c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: passed on from the caller.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The word that pg_stat_activity shows.
fn state_name(state: pg_sys::BackendState::Type) -> &'static str {
    use pg_sys::BackendState as State;
    match state {
        State::STATE_IDLE => "idle",
        State::STATE_RUNNING => "active",
        State::STATE_IDLEINTRANSACTION => "idle in transaction",
        State::STATE_FASTPATH => "fastpath function call",
        State::STATE_IDLEINTRANSACTION_ABORTED => "idle in transaction (aborted)",
        State::STATE_DISABLED => "disabled",
        _ => "",
    }
}
