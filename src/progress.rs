//! The progress of the clone that this session makes: what `blockwise.progress` shows, and NOTICE lines on request.
#![deny(unsafe_code)]

use crate::storage::activity::{self, ProgressField};
use crate::storage::server;
use pgrx::pg_sys::Oid;
use pgrx::prelude::*;
use std::time::{Duration, Instant};

/// A phase of a clone, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Checks, and the row of the unfinished clone.
    Claim,
    /// The source's dirty buffers are written out.
    Flush,
    /// Relations are copied.
    Copy,
    /// The clone becomes a database.
    Publish,
    /// What a failed clone left is removed.
    Cleanup,
}

impl Phase {
    const ALL: [Phase; 5] = [
        Phase::Claim,
        Phase::Flush,
        Phase::Copy,
        Phase::Publish,
        Phase::Cleanup,
    ];

    /// The word in the view.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Claim => "claim",
            Phase::Flush => "flush",
            Phase::Copy => "copy",
            Phase::Publish => "publish",
            Phase::Cleanup => "cleanup",
        }
    }

    /// The phase with this number.
    pub(crate) fn from_number(number: i64) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| *phase as i64 == number)
    }
}

/// The time between two NOTICE lines within a phase.
const NOTICE_PAUSE: Duration = Duration::from_secs(1);

/// The reporter of one clone.
pub(crate) struct Progress {
    source: Oid,
    target: Oid,
    started: i64,
    phase: Phase,
    relations: (u64, u64),
    bytes: (u64, u64),
    noticed: Option<Instant>,
    log: bool,
}

impl Progress {
    /// Opens the entry of this session.
    pub(crate) fn start(source: Oid, log: bool) -> Progress {
        let progress = Progress {
            source,
            target: Oid::INVALID,
            started: server::now(),
            phase: Phase::Claim,
            relations: (0, 0),
            bytes: (0, 0),
            noticed: None,
            log,
        };
        progress.write_all();
        progress
    }

    /// Writes the whole entry: at the start, and after an abort has cleared it.
    fn write_all(&self) {
        activity::start_progress(self.source, self.started);
        activity::set_progress(ProgressField::Phase, self.phase as i64);
        activity::set_progress(ProgressField::Target, i64::from(self.target.to_u32()));
        activity::set_progress(ProgressField::RelationsDone, self.relations.0 as i64);
        activity::set_progress(ProgressField::RelationsTotal, self.relations.1 as i64);
        activity::set_progress(ProgressField::BytesDone, self.bytes.0 as i64);
        activity::set_progress(ProgressField::BytesTotal, self.bytes.1 as i64);
    }

    /// The clone has a row from now on.
    pub(crate) fn set_target(&mut self, target: Oid) {
        self.target = target;
        activity::set_progress(ProgressField::Target, i64::from(target.to_u32()));
    }

    /// A phase begins.
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        activity::set_progress(ProgressField::Phase, phase as i64);
        self.noticed = None;
        self.notice(true);
    }

    /// What there is to copy.
    pub(crate) fn set_totals(&mut self, relations: u64, bytes: u64) {
        self.relations.1 = relations;
        self.bytes.1 = bytes;
        activity::set_progress(ProgressField::RelationsTotal, relations as i64);
        activity::set_progress(ProgressField::BytesTotal, bytes as i64);
    }

    /// Bytes have been copied.
    pub(crate) fn add_bytes(&mut self, bytes: u64) {
        if bytes > 0 {
            self.bytes.0 += bytes;
            activity::set_progress(ProgressField::BytesDone, self.bytes.0 as i64);
            self.notice(false);
        }
    }

    /// A relation has been copied.
    pub(crate) fn add_relation(&mut self) {
        self.relations.0 += 1;
        activity::set_progress(ProgressField::RelationsDone, self.relations.0 as i64);
    }

    /// Opens the entry again after an abort, for the cleanup.
    pub(crate) fn rearm_for_cleanup(&mut self) {
        self.phase = Phase::Cleanup;
        self.write_all();
        self.noticed = None;
        self.notice(true);
    }

    /// Closes the entry.
    pub(crate) fn end(&self) {
        activity::end_progress();
    }

    fn notice(&mut self, now: bool) {
        if !self.log {
            return;
        }
        if !now && self.noticed.is_some_and(|at| at.elapsed() < NOTICE_PAUSE) {
            return;
        }
        self.noticed = Some(Instant::now());
        if self.phase == Phase::Copy {
            notice!(
                "blockwise: copy: {} of {} relations, {} of {} MB",
                self.relations.0,
                self.relations.1,
                self.bytes.0 >> 20,
                self.bytes.1 >> 20
            );
        } else {
            notice!("blockwise: {}", self.phase.name());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_survive_their_number() {
        for phase in Phase::ALL {
            assert_eq!(Phase::from_number(phase as i64), Some(phase));
        }
        assert_eq!(Phase::from_number(99), None);
    }
}
