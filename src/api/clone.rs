//! `CALL blockwise.clone_database(…)`.
#![deny(unsafe_code)]

use crate::clone::options::Arguments;
use crate::clone::{self, Outcome};
use crate::error::Result;
use crate::storage::call::Call;
use crate::storage::xact::Procedure;
use pgrx::JsonB;
use pgrx::pg_sys::Datum;
use pgrx::prelude::*;
use serde_json::json;

/// The positions of the arguments, as `sql/clone.sql` declares them. The first of the ten that are also results is
/// the strategy; the others carry no input.
fn arguments(call: &Call) -> Arguments {
    Arguments {
        source: call.text(0),
        target: call.text(1),
        owner: call.text(2),
        tablespace: call.text(3),
        connection_limit: call.int(4),
        allow_connections: call.bool(5),
        is_template: call.bool(6),
        copy_settings: call.bool(7),
        copy_privileges: call.bool(8),
        copy_comment: call.bool(9),
        if_exists: call.text(10),
        on_busy: call.text(11),
        max_pause: call.interval(12),
        timeout: call.interval(13),
        unlogged: call.text(14),
        wal_compression: call.text(15),
        allow_during_backup: call.bool(16),
        log_progress: call.bool(17),
        strategy: call.text(18),
    }
}

/// The procedure.
pub(crate) fn clone_database(call: &mut Call) -> Result<Datum> {
    let procedure = Procedure::enter(call.is_atomic())?;
    let options = arguments(call).check()?;
    let outcome = clone::clone_database(&procedure, &options)?;
    procedure.finish();
    call.row(result_row(&outcome))
}

/// The ten output columns.
fn result_row(outcome: &Outcome) -> Vec<Option<Datum>> {
    vec![
        outcome.strategy.name().into_datum(),
        outcome.database.into_datum(),
        (outcome.relations as i64).into_datum(),
        (outcome.blocks as i64).into_datum(),
        (outcome.bytes as i64).into_datum(),
        0i64.into_datum(),
        (outcome.wal_bytes as i64).into_datum(),
        // Nobody is paused: the source has no sessions, and new ones wait for the whole clone.
        None,
        rounded(outcome.elapsed_ms).into_datum(),
        JsonB(details(outcome)).into_datum(),
    ]
}

fn details(outcome: &Outcome) -> serde_json::Value {
    let [claim, copy, publish] = outcome.phase_ms.map(rounded);
    json!({
        "forks": outcome.forks,
        "wal_compression": outcome.compression.name(),
        "source_buffers_written": outcome.flushed,
        "claim_ms": claim,
        "copy_ms": copy,
        "publish_ms": publish,
    })
}

/// Milliseconds to three places: microseconds.
fn rounded(milliseconds: f64) -> f64 {
    (milliseconds * 1000.0).round() / 1000.0
}
