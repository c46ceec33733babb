//! PostgreSQL's own checkers: `pg_amcheck` and `pg_checksums`.

use std::process::Output;

use crate::process::run;
use crate::{Cluster, Error, Result};

/// Checks heaps and indexes of a database: clean is exit 0 and not a word. Creates extension `amcheck` in the
/// database where it is missing, so take a fingerprint before.
pub fn amcheck(cluster: &Cluster, database: &str) -> Result<()> {
    let mut command = cluster.installation().command("pg_amcheck")?;
    cluster.point_at(&mut command);
    // A second check is told that the extension is there already: no finding.
    command.env("PGOPTIONS", "-c client_min_messages=warning");
    command.args([
        "--install-missing",
        "--heapallindexed",
        "--parent-check",
        database,
    ]);
    let output = command.output()?;
    if output.status.success() && output.stdout.is_empty() && output.stderr.is_empty() {
        return Ok(());
    }
    Err(Error::new(format!(
        "pg_amcheck of {database:?} is not content ({}): {}",
        output.status,
        text(&output)
    )))
}

/// Verifies every checksum in the data folder of a server that was stopped cleanly.
pub fn checksums(cluster: &Cluster) -> Result<()> {
    run(cluster
        .installation()
        .command("pg_checksums")?
        .arg("--check")
        .arg("-D")
        .arg(cluster.data()))
    .map(|_| ())
}

/// All that a program printed.
#[must_use]
pub fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
