//! Cloning a database: claim, copy, publish.
//!
//! 1. *Claim.* Everything is checked, the source is locked, and a row of pg_database with `datconnlimit = -2` is
//!    committed. From here on a crash leaves a row that DROP DATABASE removes together with the files.
//! 2. *Copy.* Directories, relation map and relations, with neither transaction id nor snapshot.
//! 3. *Publish.* The row becomes that of an ordinary database, in a commit that is flushed.
//!
//! Every other way out removes what there is: see [`cleanup`].
#![deny(unsafe_code)]

pub(crate) mod blockers;
pub(crate) mod checks;
pub(crate) mod claim;
pub(crate) mod cleanup;
pub(crate) mod copy;
pub(crate) mod log;
pub(crate) mod options;
pub(crate) mod publish;
pub(crate) mod relations;
pub(crate) mod replace;
pub(crate) mod source;

use crate::error::{Error, Result};
use crate::progress::{Phase, Progress};
use crate::storage::block::BLOCK_SIZE;
use crate::storage::exit;
use crate::storage::guard::catch;
use crate::storage::wal::{self, Compression};
use crate::storage::xact::Procedure;
use options::{OnBusy, Options, Strategy};
use pgrx::pg_sys::Oid;
use std::time::Instant;

/// What a finished clone is, and what it took.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// The clone.
    pub(crate) database: Oid,
    /// How it was made.
    pub(crate) strategy: Strategy,
    /// How page images were compressed.
    pub(crate) compression: Compression,
    /// Relations copied.
    pub(crate) relations: u64,
    /// Forks copied.
    pub(crate) forks: u64,
    /// Blocks copied.
    pub(crate) blocks: u64,
    /// Bytes copied.
    pub(crate) bytes: u64,
    /// WAL that this session wrote for it.
    pub(crate) wal_bytes: u64,
    /// Dirty buffers of the source written out first.
    pub(crate) flushed: u64,
    /// Times of the phases: claim, copy, publish.
    pub(crate) phase_ms: [f64; 3],
    /// All of it.
    pub(crate) elapsed_ms: f64,
}

/// Makes a clone. Commits several times.
pub(crate) fn clone_database(procedure: &Procedure, options: &Options) -> Result<Outcome> {
    let mut claimed = None;
    let mut progress = None;
    match catch(|| run(procedure, options, &mut claimed, &mut progress)) {
        Ok(outcome) => Ok(outcome),
        Err(failure) => {
            if let Some(clone) = claimed {
                cleanup::after_error(procedure, clone, progress.as_mut());
            }
            failure.rethrow()
        }
    }
}

/// The protocol. `claimed` and `progress` tell the caller how far it came if it fails.
fn run(
    procedure: &Procedure,
    options: &Options,
    claimed: &mut Option<Oid>,
    progress: &mut Option<Progress>,
) -> Result<Outcome> {
    let started = Instant::now();
    let wal_before = wal::bytes_written();
    let compression = choose_compression(options.compression)?;
    checks::check_caller(options)?;
    // Once before the source is locked, so that nobody is waited for or ended in vain, and once after.
    checks::check(options, &source::find(&options.source)?)?;
    if options.on_busy != OnBusy::Error {
        // Lets go of the CALL's own snapshot: the wait may be long. Everything is checked again after it.
        procedure.commit();
    }
    let locked = source::lock(options)?;
    let checked = checks::check(options, &locked.database)?;
    let progress = progress.insert(Progress::start(locked.database.oid, options.log_progress));
    progress.enter(Phase::Claim);
    if let Some(replaced) = checked.replaced {
        replace::drop_replaced(procedure, options, replaced)?;
    }
    let clone = claim::claim(procedure, options, &checked, &locked.database, |oid| {
        *claimed = Some(oid);
    })?;
    progress.set_target(clone.database);
    let claim_done = Instant::now();

    let job = copy::Job {
        source: &locked.database,
        target: clone.database,
        tablespace: checked.tablespace,
        compression,
    };
    let totals = copy::copy(&job, progress)?;
    let copy_done = Instant::now();

    progress.enter(Phase::Publish);
    let mut outcome = Outcome {
        database: clone.database,
        strategy: options.strategy,
        compression,
        relations: totals.relations,
        forks: totals.copied.forks,
        blocks: totals.copied.blocks,
        bytes: totals.copied.blocks * BLOCK_SIZE as u64,
        wal_bytes: 0,
        flushed: totals.flushed,
        phase_ms: [0.0; 3],
        elapsed_ms: 0.0,
    };
    publish::publish(procedure, options, &outcome, &locked.database)?;
    exit::disarm(clone.database);
    clone.release();
    locked.release();
    progress.end();
    outcome.wal_bytes = wal::bytes_written() - wal_before;
    outcome.phase_ms = [
        milliseconds(started, claim_done),
        milliseconds(claim_done, copy_done),
        milliseconds(copy_done, Instant::now()),
    ];
    outcome.elapsed_ms = milliseconds(started, Instant::now());
    Ok(outcome)
}

fn milliseconds(from: Instant, to: Instant) -> f64 {
    to.duration_since(from).as_secs_f64() * 1000.0
}

/// The method asked for, if the server has it; for "auto" LZ4, which costs less than the WAL that it saves, or
/// PostgreSQL's own method on the few servers that were built without it.
fn choose_compression(wanted: Option<Compression>) -> Result<Compression> {
    match wanted {
        None if Compression::Lz4.is_built_in() => Ok(Compression::Lz4),
        None => Ok(Compression::Pglz),
        Some(method) if method.is_built_in() => Ok(method),
        Some(method) => Err(Error::CompressionNotBuilt {
            method: method.name(),
        }),
    }
}
