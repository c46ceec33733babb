//! The demo's source database.
//!
//! The harness's own source has every index method, TOAST, sequences, an unlogged table, a materialized view and
//! large objects. Here come pgbench's tables, which give it size, and what a shop has besides.

use anyhow::{Result, bail};
use pg_test::{Cluster, Source};

/// How many rows the larger tables of the harness's source get.
const ROWS: u32 = 10_000;

/// Customers, orders by country and month, and foreign keys between them.
const ORDERS: &str = include_str!("shop.sql");

/// Builds database `shop`.
pub(super) fn build(cluster: &Cluster, scale: u32) -> Result<()> {
    // The harness can leave zero blocks behind a table, as a crash does; a demo has no need of them.
    Source::new()
        .rows(ROWS)
        .without_zero_tail()
        .build(cluster, "shop")?;
    let mut pgbench = cluster.installation().command("pgbench")?;
    cluster.point_at(&mut pgbench);
    let output = pgbench
        .args(["-i", "-q", "-s", &scale.to_string(), "shop"])
        .output()?;
    if !output.status.success() {
        bail!("pgbench failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let output = cluster.psql("shop", ORDERS)?;
    if !output.status.success() {
        bail!(
            "the shop's tables could not be made: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}
