//! The demo's two clones of `shop`, measured and compared with their source.

use crate::exec::doing;
use anyhow::{Context, Result, anyhow};
use pg_test::{Cluster, Fingerprint};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// One way of cloning: its name in the table, the new database, the statement.
const METHODS: [(&str, &str, &str); 2] = [
    (
        "blockwise.clone_database",
        "shop_copy",
        "CALL blockwise.clone_database('shop', 'shop_copy')",
    ),
    (
        "CREATE DATABASE … TEMPLATE",
        "shop_core",
        "CREATE DATABASE shop_core TEMPLATE shop STRATEGY wal_log",
    ),
];

/// How often each way is measured, in turns, so that neither always has the warmer or the busier machine.
const ROUNDS: usize = 3;

/// A clone, and what it took.
#[derive(Debug)]
pub(super) struct Clone {
    method: &'static str,
    database: &'static str,
    runs: Vec<Run>,
    /// How it differs from its source; None if it does not.
    pub(super) difference: Option<String>,
}

/// What making a clone once took.
#[derive(Debug)]
struct Run {
    time: Duration,
    wal_bytes: u64,
}

/// Clones `shop` in every way there is and compares the last clone of each with it.
pub(super) fn make(cluster: &Cluster) -> Result<Vec<Clone>> {
    let mut clones: Vec<Clone> = METHODS
        .map(|(method, database, _)| Clone {
            method,
            database,
            runs: Vec::new(),
            difference: None,
        })
        .into();
    for round in 1..=ROUNDS {
        for (clone, (_, database, statement)) in clones.iter_mut().zip(METHODS) {
            if round > 1 {
                cluster.batch("postgres", &[&format!("DROP DATABASE {database}")])?;
            }
            let what = format!("{round} of {ROUNDS}: {statement}");
            clone.runs.push(doing(&what, || measure(cluster, statement))?);
        }
    }
    doing(
        "comparing the clones with shop: every row of every table, and its place",
        || compare(cluster, &mut clones),
    )?;
    Ok(clones)
}

/// Takes all fingerprints at once, for each keeps one core busy for a while.
fn compare(cluster: &Cluster, clones: &mut [Clone]) -> Result<()> {
    thread::scope(|scope| {
        let take = |database| scope.spawn(move || Fingerprint::of(cluster, database));
        let source = take("shop");
        let copies: Vec<_> = clones.iter().map(|clone| take(clone.database)).collect();
        let source = finished(source)?;
        for (clone, copy) in clones.iter_mut().zip(copies) {
            let outcome = source.expect_equal(&finished(copy)?);
            clone.difference = outcome.err().map(|error| format!("{}: {error}", clone.database));
        }
        Ok(())
    })
}

/// The fingerprint that a thread took.
fn finished(thread: ScopedJoinHandle<'_, pg_test::Result<Fingerprint>>) -> Result<Fingerprint> {
    let outcome = thread
        .join()
        .map_err(|_| anyhow!("taking a fingerprint panicked"))?;
    Ok(outcome?)
}

/// Runs a statement on a server that has nothing left to write; wall time and WAL volume.
fn measure(cluster: &Cluster, statement: &str) -> Result<Run> {
    let mut session = cluster.session("postgres")?;
    session.batch("CHECKPOINT")?;
    let before: String = session.query_value("SELECT pg_current_wal_insert_lsn()")?;
    let start = Instant::now();
    session.batch(statement).with_context(|| statement.to_owned())?;
    let time = start.elapsed();
    let wal: i64 = session.query_value(&format!(
        "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{before}')::bigint"
    ))?;
    Ok(Run {
        time,
        wal_bytes: wal.unsigned_abs(),
    })
}

/// The demo's result.
pub(super) fn table(clones: &[Clone]) -> String {
    let width = clones
        .iter()
        .map(|clone| clone.method.chars().count())
        .max()
        .unwrap_or(0);
    let mut text = format!("{:width$}  {:>9}  {:>10}  identical\n", "method", "time", "WAL");
    for clone in clones {
        let time = median(clone.runs.iter().map(|run| run.time)).unwrap_or_default();
        let time = format!("{:.0} ms", time.as_secs_f64() * 1000.0);
        let wal = megabytes(median(clone.runs.iter().map(|run| run.wal_bytes)).unwrap_or_default());
        let same = if clone.difference.is_none() { "yes" } else { "no" };
        text.push_str(&format!(
            "{:width$}  {time:>9}  {wal:>10}  {same}\n",
            clone.method
        ));
    }
    text.push_str(&format!(
        "Medians of {ROUNDS} clones each, made in turns, each after a checkpoint.\n"
    ));
    text
}

/// The middle one of some measurements.
fn median<T: Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut sorted: Vec<T> = values.collect();
    sorted.sort();
    let middle = sorted.len().checked_sub(1)? / 2;
    sorted.into_iter().nth(middle)
}

/// A number of bytes as people read it.
fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_aligned_and_honest() {
        let run = |millis| Run {
            time: Duration::from_millis(millis),
            wal_bytes: 38_400_000,
        };
        let clone = |method, difference| Clone {
            method,
            database: "copy",
            runs: vec![run(900), run(100), run(420)],
            difference,
        };
        let text = table(&[clone("ours", None), clone("core's own", Some("a row".into()))]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "ours           420 ms     38.4 MB  yes");
        assert_eq!(lines[2], "core's own     420 ms     38.4 MB  no");
    }
}
