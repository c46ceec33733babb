//! The demo's two clones of `shop`, measured and compared with their source.

use crate::exec::doing;
use anyhow::{Context, Result};
use pg_test::{Cluster, Fingerprint};
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

/// A clone, and what it took.
#[derive(Debug)]
pub(super) struct Clone {
    method: &'static str,
    time: Duration,
    wal_bytes: u64,
    /// How it differs from its source; None if it does not.
    pub(super) difference: Option<String>,
}

/// Clones `shop` in every way there is and compares each clone with it.
pub(super) fn make(cluster: &Cluster) -> Result<Vec<Clone>> {
    let source = doing(
        "taking the fingerprint of shop: every row of every table, and its place",
        || Ok(Fingerprint::of(cluster, "shop")?),
    )?;
    let mut clones = Vec::new();
    for (method, database, statement) in METHODS {
        let (time, wal_bytes) = doing(statement, || measure(cluster, statement))?;
        let clone = doing(&format!("comparing {database} with shop"), || {
            Ok(Fingerprint::of(cluster, database)?)
        })?;
        let difference = source
            .expect_equal(&clone)
            .err()
            .map(|error| format!("{database}: {error}"));
        clones.push(Clone {
            method,
            time,
            wal_bytes,
            difference,
        });
    }
    Ok(clones)
}

/// Runs a statement on a server that has nothing left to write; wall time and WAL volume.
fn measure(cluster: &Cluster, statement: &str) -> Result<(Duration, u64)> {
    let mut session = cluster.session("postgres")?;
    session.batch("CHECKPOINT")?;
    let before: String = session.query_value("SELECT pg_current_wal_insert_lsn()")?;
    let start = Instant::now();
    session.batch(statement).with_context(|| statement.to_owned())?;
    let time = start.elapsed();
    let wal: i64 = session.query_value(&format!(
        "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{before}')::bigint"
    ))?;
    Ok((time, wal.unsigned_abs()))
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
        let time = format!("{:.0} ms", clone.time.as_secs_f64() * 1000.0);
        let same = if clone.difference.is_none() { "yes" } else { "no" };
        text.push_str(&format!(
            "{:width$}  {time:>9}  {:>10}  {same}\n",
            clone.method,
            megabytes(clone.wal_bytes)
        ));
    }
    text
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
        let clone = |method, difference| Clone {
            method,
            time: Duration::from_millis(420),
            wal_bytes: 38_400_000,
            difference,
        };
        let text = table(&[clone("ours", None), clone("core's own", Some("a row".into()))]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "ours           420 ms     38.4 MB  yes");
        assert_eq!(lines[2], "core's own     420 ms     38.4 MB  no");
    }
}
