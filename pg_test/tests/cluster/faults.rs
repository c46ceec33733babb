//! Goal: whatever happens between any two steps of a clone leaves nothing, or (a crash) an unfinished clone that plain
//! DROP DATABASE removes, on a standby too. Method: the fault points of the testing build, one by one, with every way
//! out; after each the harness looks for rows, folders, files, buffers, locks and sync requests.

use pg_test::orphans::expect_no_unowned_files;
use pg_test::{Cluster, Fingerprint, Result};

use crate::support::{
    builder, call, clone, connection_limit, drop_unfinished, expect_nothing_left, expect_whole,
    session_with_fault, start,
};

/// The fault points before the clone is published, in order; some of them later than at their first pass.
const POINTS: &[&str] = &[
    "claim.before_insert",
    "claim.before_commit",
    "claim.after_commit",
    "directory.after_mkdir",
    "directory.after_record",
    "relmap.after_copy",
    "flush.buffer",
    "flush.buffer:3",
    "copy.relation",
    "copy.relation:150",
    "copy.after_write",
    "copy.after_write:100",
    "copy.after_register",
    "copy.after_record",
    "copy.after_record:200",
    "copy.end",
    "publish.start",
    "publish.row_locked",
    "publish.row_updated",
    "publish.before_commit",
];

/// Points that lie before the commit of the unfinished clone's row.
fn is_before_claim(point: &str) -> bool {
    matches!(point, "claim.before_insert" | "claim.before_commit")
}

/// A cluster with a small source. Sync requests are served for real: one for a file that is gone is a PANIC.
fn cluster_with_source() -> Result<Cluster> {
    let cluster = start(builder().set("fsync", "on"))?;
    cluster.batch(
        "postgres",
        &[
            "CREATE TABLESPACE side LOCATION ''",
            "CREATE DATABASE src",
            "ALTER DATABASE src SET synchronous_commit = off",
        ],
    )?;
    cluster.batch(
        "src",
        &[
            "CREATE TABLE big AS SELECT n AS id, repeat('x', 500) AS body FROM generate_series(1, 10000) n",
            "CREATE INDEX ON big (id)",
            "CREATE UNLOGGED TABLE quick (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, b text)",
            "INSERT INTO quick (b) SELECT n FROM generate_series(1, 100) n",
            "CREATE TABLE aside (a int) TABLESPACE side",
            "INSERT INTO aside SELECT generate_series(1, 1000)",
            "VACUUM big",
        ],
    )?;
    Ok(cluster)
}

/// Gives the source dirty buffers, so that there is something to write out.
fn dirty_the_source(cluster: &Cluster) -> Result<()> {
    cluster.batch(
        "src",
        &[
            "UPDATE aside SET a = a + 1",
            "UPDATE big SET id = id WHERE id % 1000 = 0",
        ],
    )
}

/// Runs a clone into this fault at every point; each has to fail with the SQLSTATE and leave nothing, and the session
/// that survives has to be able to make the clone afterwards.
fn soft_fault_at_every_point(action: &str, sqlstate: &str) -> Result<()> {
    let cluster = cluster_with_source()?;
    let standby = cluster.standby()?;
    for point in POINTS {
        dirty_the_source(&cluster)?;
        let mut session = session_with_fault(&cluster, &format!("{point}={action}"))?;
        let error = session.expect_error(sqlstate, &call("src", "copy", ""));
        error.map_err(|e| e.context(format!("{point}={action}")))?;
        expect_nothing_left(&cluster, "copy").map_err(|e| e.context(format!("{point}={action}")))?;
        session.batch("SET blockwise.fault = ''")?;
        session.batch(&call("src", "copy", ""))?;
        assert_eq!(
            connection_limit(&cluster, "copy")?,
            Some(-1),
            "the clone after {point}={action}"
        );
        session.batch("DROP DATABASE copy")?;
    }
    expect_nothing_on(&standby, &cluster)?;
    clone(&cluster, "src", "copy")?;
    expect_whole(&cluster, &Fingerprint::of(&cluster, "src")?, "copy")
}

/// What was removed on the primary is removed on the standby.
fn expect_nothing_on(standby: &Cluster, primary: &Cluster) -> Result<()> {
    standby.wait_for_replay(primary)?;
    assert_eq!(connection_limit(standby, "copy")?, None, "a row on the standby");
    expect_no_unowned_files(standby).map_err(|e| e.context("on the standby"))
}

#[test]
fn an_error_at_any_point_leaves_nothing() -> Result<()> {
    soft_fault_at_every_point("error", "XX000")
}

#[test]
fn a_panic_of_ours_at_any_point_leaves_nothing() -> Result<()> {
    soft_fault_at_every_point("panic", "XX000")
}

#[test]
fn a_cancel_at_any_point_leaves_nothing() -> Result<()> {
    soft_fault_at_every_point("cancel", "57014")
}

#[test]
fn the_end_of_the_session_at_any_point_leaves_nothing() -> Result<()> {
    let cluster = cluster_with_source()?;
    let standby = cluster.standby()?;
    for action in ["fatal", "terminate"] {
        for point in POINTS {
            dirty_the_source(&cluster)?;
            let mut session = session_with_fault(&cluster, &format!("{point}={action}"))?;
            let error = session.batch(&call("src", "copy", "")).err();
            assert!(
                error.is_some_and(|e| e.lost_connection()),
                "{point}={action} ends the session"
            );
            drop(session);
            expect_nothing_left(&cluster, "copy").map_err(|e| e.context(format!("{point}={action}")))?;
        }
    }
    expect_nothing_on(&standby, &cluster)?;
    clone(&cluster, "src", "copy")?;
    expect_whole(&cluster, &Fingerprint::of(&cluster, "src")?, "copy")
}

#[test]
fn a_kill_at_any_point_leaves_at_most_a_row_that_drop_database_removes_everywhere() -> Result<()> {
    let primary = cluster_with_source()?;
    let standby = primary.standby()?;
    for point in POINTS {
        dirty_the_source(&primary)?;
        let mut session = session_with_fault(&primary, &format!("{point}=kill"))?;
        let error = session.batch(&call("src", "copy", "")).err();
        assert!(error.is_some_and(|e| e.lost_connection()), "{point}=kill");
        drop(session);
        primary.wait_ready()?;
        if is_before_claim(point) {
            expect_nothing_left(&primary, "copy")?;
            continue;
        }
        expect_no_unowned_files(&primary).map_err(|e| e.context(format!("before the drop, {point}")))?;
        standby.wait_for_replay(&primary)?;
        assert_eq!(
            connection_limit(&standby, "copy")?,
            Some(-2),
            "on the standby, {point}"
        );
        refuses_use(&primary)?;
        drop_unfinished(&primary, "copy").map_err(|e| e.context(format!("after the drop, {point}")))?;
        standby.wait_for_replay(&primary)?;
        assert_eq!(
            connection_limit(&standby, "copy")?,
            None,
            "on the standby, {point}"
        );
        expect_no_unowned_files(&standby).map_err(|e| e.context(format!("on the standby, {point}")))?;
    }
    clone(&primary, "src", "copy")?;
    expect_whole(&primary, &Fingerprint::of(&primary, "src")?, "copy")
}

/// An unfinished clone is of no use: no connection, no source for core or for us.
fn refuses_use(cluster: &Cluster) -> Result<()> {
    let connected = cluster.session("copy").err();
    assert!(
        connected.is_some_and(|e| e.code == "55000"),
        "connecting to an unfinished clone"
    );
    let mut session = cluster.session("postgres")?;
    session.expect_error("55000", "CREATE DATABASE other TEMPLATE copy")?;
    session.expect_error("55000", &call("copy", "other", ""))?;
    expect_no_row(cluster, "other")
}

fn expect_no_row(cluster: &Cluster, database: &str) -> Result<()> {
    assert_eq!(connection_limit(cluster, database)?, None, "{database:?}");
    Ok(())
}

/// After the commit there is nothing to undo: whatever happens, the clone is whole.
#[test]
fn nothing_undoes_a_published_clone() -> Result<()> {
    let cluster = cluster_with_source()?;
    for action in ["error", "panic", "cancel", "fatal", "terminate", "kill"] {
        let mut session = session_with_fault(&cluster, &format!("publish.after_commit={action}"))?;
        assert!(session.batch(&call("src", "copy", "")).is_err(), "{action}");
        drop(session);
        cluster.wait_ready()?;
        // After a kill the unlogged tables of both are empty: still equal.
        let source = Fingerprint::of(&cluster, "src")?;
        expect_whole(&cluster, &source, "copy")
            .map_err(|e| e.context(format!("publish.after_commit={action}")))?;
        cluster.batch("postgres", &["DROP DATABASE copy"])?;
    }
    Ok(())
}

/// A failure of the cleanup itself. The session's end and a cancel must not stop it; what else stops it leaves the
/// unfinished clone's row, which owns the files.
#[test]
fn a_cleanup_that_fails_leaves_a_row_that_can_be_dropped() -> Result<()> {
    let cluster = cluster_with_source()?;
    cluster.allow_log("could not remove unfinished clone");
    damage_source(&cluster)?;
    for point in ["cleanup.start", "cleanup.before_commit"] {
        for action in ["error", "panic", "cancel", "fatal", "terminate", "kill"] {
            let what = format!("{point}={action}");
            let mut session = session_with_fault(&cluster, &what)?;
            let error = session.batch(&call("src", "copy", "")).err();
            match action {
                "fatal" | "terminate" | "kill" => {
                    assert!(error.is_some_and(|e| e.lost_connection()), "{what}")
                }
                _ => assert!(
                    error.is_some_and(|e| e.code == "XX001"),
                    "{what}: the first error is the one reported"
                ),
            }
            drop(session);
            cluster.wait_ready()?;
            match (action, connection_limit(&cluster, "copy")?) {
                ("cancel", limit) => assert_eq!(limit, None, "{what}: a cancel does not stop the cleanup"),
                (_, None) => {}
                _ => {
                    expect_no_unowned_files(&cluster).map_err(|e| e.context(&what))?;
                    drop_unfinished(&cluster, "copy").map_err(|e| e.context(&what))?;
                }
            }
            expect_nothing_left(&cluster, "copy").map_err(|e| e.context(&what))?;
        }
    }
    Ok(())
}

/// Damages a page of the source in its file, so that every clone of it fails on the way.
fn damage_source(cluster: &Cluster) -> Result<()> {
    cluster.allow_log("page verification failed|invalid page");
    let path = cluster.relation_path("src", "big")?;
    cluster.stop(pg_test::StopMode::Fast)?;
    let mut bytes = std::fs::read(&path)?;
    bytes[8192 * 50 + 4000] ^= 0x55;
    std::fs::write(&path, bytes)?;
    cluster.start()
}
