//! What the tests share: a cluster with the extension, calling it, looking at what is left.

use std::time::Duration;

use pg_test::orphans::expect_no_unowned_files;
use pg_test::process::wait_until;
use pg_test::{
    Cluster, ClusterBuilder, Error, Fingerprint, Installation, Result, Running, Session, SqlResult,
    identifier, literal,
};

/// The advisory lock that a clone held by a fault point waits for.
const GATE: u32 = 7_355_608;

/// The options every test starts from.
pub(crate) fn builder() -> ClusterBuilder {
    ClusterBuilder::new(&Installation::from_env()).for_tests()
}

/// A started cluster without anything in it.
pub(crate) fn bare_cluster() -> Result<Cluster> {
    builder().start()
}

/// A started cluster with the extension in database `postgres`.
pub(crate) fn cluster() -> Result<Cluster> {
    start(builder())
}

/// Starts a cluster of these options, with the extension in database `postgres`.
pub(crate) fn start(builder: ClusterBuilder) -> Result<Cluster> {
    let cluster = builder.start()?;
    cluster.batch("postgres", &["CREATE EXTENSION blockwise"])?;
    Ok(cluster)
}

/// The statement that clones, with further options in named notation, for example `on_busy => 'wait'`.
pub(crate) fn call(source: &str, target: &str, options: &str) -> String {
    let comma = if options.is_empty() { "" } else { ", " };
    format!(
        "CALL blockwise.clone_database({}, {}{comma}{options})",
        literal(source),
        literal(target)
    )
}

/// What the procedure returns.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The clone's OID.
    pub(crate) database: u32,
    /// How many relations were copied.
    pub(crate) relations: u64,
    /// How many blocks.
    pub(crate) blocks: u64,
    /// How much WAL was written.
    pub(crate) wal_bytes: u64,
}

/// Clones from a session in database `postgres`.
pub(crate) fn clone(cluster: &Cluster, source: &str, target: &str) -> Result<Outcome> {
    clone_with(&mut cluster.session("postgres")?, source, target, "")
}

/// Clones from this session, with further options.
pub(crate) fn clone_with(
    session: &mut Session,
    source: &str,
    target: &str,
    options: &str,
) -> Result<Outcome> {
    let row = session.row(&call(source, target, options))?;
    let number = |column: usize| -> Result<u64> {
        let text = row.get(column).and_then(Option::as_deref);
        text.and_then(|text| text.parse().ok())
            .ok_or_else(|| Error::new(format!("column {column} of {row:?}")))
    };
    assert_eq!(row[0].as_deref(), Some("wal_log"), "the strategy that was chosen");
    Ok(Outcome {
        database: u32::try_from(number(1)?).map_err(|e| Error::new(e.to_string()))?,
        relations: number(2)?,
        blocks: number(3)?,
        wal_bytes: number(6)?,
    })
}

/// A session in `postgres` with this fault armed, for example `copy.relation:5=error`.
pub(crate) fn session_with_fault(cluster: &Cluster, fault: &str) -> SqlResult<Session> {
    let mut session = cluster.session("postgres")?;
    session.batch(&format!("SET blockwise.fault = {}", literal(fault)))?;
    Ok(session)
}

/// Holds every clone of database `postgres` that comes to a fault point with action `wait`.
pub(crate) struct Gate {
    keeper: Session,
}

impl Gate {
    /// Closes the gate.
    pub(crate) fn close(cluster: &Cluster) -> Result<Self> {
        let mut keeper = cluster.session("postgres")?;
        keeper.batch(&format!("SELECT pg_advisory_lock({GATE})"))?;
        Ok(Self { keeper })
    }

    /// Waits until this backend stands at the gate.
    pub(crate) fn wait_for(&mut self, running: &Running) -> Result<()> {
        let question = format!(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {GATE} AND NOT granted AND pid = {}",
            running.pid()
        );
        wait_until(
            "a clone comes to its fault point",
            Duration::from_secs(60),
            || {
                if running.is_finished() {
                    return Err(Error::new("the clone ended without coming to its fault point"));
                }
                Ok(self.keeper.query_value::<i64>(&question)? == 1)
            },
        )
    }

    /// Waits until any backend stands at the gate.
    pub(crate) fn wait_for_any(&mut self) -> Result<()> {
        let question = format!(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {GATE} AND NOT granted"
        );
        wait_until(
            "a clone comes to its fault point",
            Duration::from_secs(60),
            || Ok(self.keeper.query_value::<i64>(&question)? == 1),
        )
    }

    /// Closes the gate anew: a restart of the server ended the session that kept it closed.
    pub(crate) fn reopen_after_restart(&mut self, cluster: &Cluster) -> Result<()> {
        *self = Self::close(cluster)?;
        Ok(())
    }

    /// Lets all go on.
    pub(crate) fn open(mut self) -> Result<()> {
        Ok(self.keeper.batch("SELECT pg_advisory_unlock_all()")?)
    }
}

/// A clone that stands at a fault point until the gate opens.
pub(crate) fn held_clone(
    cluster: &Cluster,
    point: &str,
    source: &str,
    target: &str,
) -> Result<(Gate, Running)> {
    let mut gate = Gate::close(cluster)?;
    let session = session_with_fault(cluster, &format!("{point}=wait"))?;
    let running = session.spawn(call(source, target, ""));
    gate.wait_for(&running)?;
    Ok((gate, running))
}

/// The connection limit of a database: `None` where there is no such database, -2 for an unfinished clone.
pub(crate) fn connection_limit(cluster: &Cluster, database: &str) -> Result<Option<i32>> {
    let question = format!(
        "SELECT datconnlimit FROM pg_database WHERE datname = {}",
        literal(database)
    );
    let rows = cluster.session("postgres")?.rows(&question)?;
    Ok(rows.first().and_then(|row| row.first()?.as_deref()?.parse().ok()))
}

/// Fails unless a clone is a whole database with the source's content, and nothing is left lying about.
pub(crate) fn expect_whole(cluster: &Cluster, source: &Fingerprint, target: &str) -> Result<()> {
    assert_eq!(
        connection_limit(cluster, target)?,
        Some(-1),
        "{target:?} is published"
    );
    source.expect_equal(&Fingerprint::of(cluster, target)?)?;
    expect_no_unowned_files(cluster)
}

/// Fails if a failed clone left anything: a row, a folder, a file, a buffer, a lock, a sync request that can no longer
/// be served (then the checkpoint fails).
pub(crate) fn expect_nothing_left(cluster: &Cluster, target: &str) -> Result<()> {
    assert_eq!(connection_limit(cluster, target)?, None, "{target:?} left a row");
    expect_no_unowned_files(cluster)?;
    let mut session = cluster.session("postgres")?;
    session.batch("CHECKPOINT")?;
    let locks: i64 = session.query_value(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND classid = 'pg_database'::regclass \
         AND pid <> pg_backend_pid()",
    )?;
    assert_eq!(locks, 0, "locks on database objects");
    if cluster.installation().has_extension("pg_buffercache") {
        session.batch("CREATE EXTENSION IF NOT EXISTS pg_buffercache")?;
        let buffers: i64 = session.query_value(
            "SELECT count(*) FROM pg_buffercache WHERE reldatabase <> 0 \
             AND reldatabase NOT IN (SELECT oid FROM pg_database)",
        )?;
        assert_eq!(buffers, 0, "buffers of a database that is gone");
    }
    Ok(())
}

/// Drops what a crash left, with nothing but DROP DATABASE, and fails if that leaves anything.
pub(crate) fn drop_unfinished(cluster: &Cluster, target: &str) -> Result<()> {
    assert_eq!(
        connection_limit(cluster, target)?,
        Some(-2),
        "{target:?} is unfinished"
    );
    cluster
        .session("postgres")?
        .batch(&format!("DROP DATABASE {}", identifier(target)))?;
    expect_nothing_left(cluster, target)
}
