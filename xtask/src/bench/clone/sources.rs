//! The databases that are cloned.

use crate::exec::doing;
use anyhow::{Result, bail};
use pg_test::Cluster;

/// A source; built when the first case needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// pgbench's tables at a scale, all of it read into shared buffers as far as it fits.
    Pgbench(u32),
    /// What `template0` holds.
    Empty,
    /// So many tables without rows and indexes.
    Relations(u32),
}

impl Source {
    /// Its database.
    pub(super) fn database(self) -> &'static str {
        match self {
            Self::Pgbench(_) => "bench_pgbench",
            Self::Empty => "bench_empty",
            Self::Relations(_) => "bench_relations",
        }
    }

    fn build(self, cluster: &Cluster) -> Result<()> {
        let database = self.database();
        cluster.batch(
            "postgres",
            &[&format!("CREATE DATABASE {database} TEMPLATE template0")],
        )?;
        match self {
            Self::Pgbench(scale) => build_pgbench(cluster, database, scale)?,
            Self::Empty => {}
            Self::Relations(count) => build_relations(cluster, database, count)?,
        }
        cluster.wait_unused(database)?;
        Ok(cluster.checkpoint()?)
    }

    fn describe(self) -> String {
        match self {
            Self::Pgbench(scale) => format!("building a source: pgbench scale {scale}"),
            Self::Empty => "building a source: an empty database".into(),
            Self::Relations(count) => format!("building a source: {count} empty tables"),
        }
    }
}

/// The sources that are there.
#[derive(Debug, Default)]
pub(super) struct Sources(Vec<Source>);

impl Sources {
    /// Builds a source unless it is there.
    pub(super) fn ensure(&mut self, cluster: &Cluster, source: Source) -> Result<()> {
        if !self.0.contains(&source) {
            doing(&source.describe(), || source.build(cluster))?;
            self.0.push(source);
        }
        Ok(())
    }
}

fn build_pgbench(cluster: &Cluster, database: &str, scale: u32) -> Result<()> {
    let mut pgbench = cluster.installation().command("pgbench")?;
    cluster.point_at(&mut pgbench);
    let output = pgbench
        .args(["-i", "-q", "-s", &scale.to_string(), database])
        .output()?;
    if !output.status.success() {
        bail!("pgbench failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    // By the index, for a scan of a large table goes through a small ring of buffers.
    let read = "SET enable_seqscan = off; SET enable_bitmapscan = off; \
                SELECT sum(abalance) FROM pgbench_accounts WHERE aid > 0";
    Ok(cluster.session(database)?.batch(read)?)
}

/// A thousand tables a transaction, for each holds locks until it ends.
fn build_relations(cluster: &Cluster, database: &str, count: u32) -> Result<()> {
    let tables = format!(
        "DO $$ BEGIN FOR i IN 1..{count} LOOP \
           EXECUTE format('CREATE TABLE t%s (a int)', i); \
           IF i % 1000 = 0 THEN COMMIT; END IF; \
         END LOOP; END $$"
    );
    Ok(cluster.session(database)?.batch(&tables)?)
}
