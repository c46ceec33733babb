//! Goal: the commits of a clone are durable whatever the session says, and a session that ends while such a commit
//! waits undoes what is unfinished and keeps what is finished. Method: `synchronous_commit = off` with a kill right
//! after, a synchronous standby that does not exist, the number of files that the next checkpoint syncs, a client that
//! is gone.

use std::thread::sleep;
use std::time::Duration;

use pg_test::process::{Signal, wait_until};
use pg_test::{Cluster, Fingerprint, Result, Session, Source};

use crate::support::{
    Gate, builder, call, clone, clone_with, cluster, connection_limit, expect_nothing_left, expect_whole,
    session_with_fault, start,
};

fn with_source() -> Result<(Cluster, Fingerprint)> {
    let cluster = start(builder().set("wal_writer_delay", "10s"))?;
    Source::new().rows(200).build(&cluster, "shop")?;
    let fingerprint = Fingerprint::of(&cluster, "shop")?;
    Ok((cluster, fingerprint))
}

fn careless(cluster: &Cluster, fault: &str) -> Result<Session> {
    let mut session = session_with_fault(cluster, fault)?;
    session.batch("SET synchronous_commit = off")?;
    Ok(session)
}

#[test]
fn a_clone_is_durable_whatever_synchronous_commit_says() -> Result<()> {
    let (cluster, source) = with_source()?;
    let mut session = careless(&cluster, "")?;
    clone_with(&mut session, "shop", "copy", "")?;
    cluster.kill_postmaster()?;
    drop(session);
    cluster.start()?;
    assert_eq!(connection_limit(&cluster, "copy")?, Some(-1));
    source
        .permanent()
        .expect_equal(&Fingerprint::of(&cluster, "copy")?.permanent())
}

/// The row first: a directory whose row was not flushed yet would belong to nobody after a crash.
#[test]
fn the_row_is_durable_before_there_is_a_directory() -> Result<()> {
    let (cluster, _) = with_source()?;
    let mut session = careless(&cluster, "directory.after_mkdir=kill")?;
    assert!(
        session
            .batch(&call("shop", "copy", ""))
            .is_err_and(|e| e.lost_connection())
    );
    drop(session);
    cluster.wait_ready()?;
    pg_test::orphans::expect_no_unowned_files(&cluster)?;
    crate::support::drop_unfinished(&cluster, "copy")
}

/// The removal too: a row that came back would name files that are gone. Either is a row to drop; files without a row
/// are what must not be.
#[test]
fn a_crash_right_after_a_cleanup_leaves_no_file_without_a_row() -> Result<()> {
    let (cluster, _) = with_source()?;
    let mut session = careless(&cluster, "copy.end=error")?;
    session.expect_error("XX000", &call("shop", "copy", ""))?;
    cluster.kill_postmaster()?;
    drop(session);
    cluster.start()?;
    pg_test::orphans::expect_no_unowned_files(&cluster)?;
    expect_nothing_left(&cluster, "copy")
}

/// Ends or cancels a clone while its commit waits for a standby that never comes; the commit itself is done then.
fn interrupt_the_wait(cluster: &Cluster, point: &str, function: &str) -> Result<()> {
    let mut gate = Gate::close(cluster)?;
    let running = session_with_fault(cluster, &format!("{point}=wait"))?.spawn(call("shop", "copy", ""));
    gate.wait_for(&running)?;
    cluster.set("synchronous_standby_names", "nobody")?;
    cluster.reload()?;
    sleep(Duration::from_millis(200));
    gate.open()?;
    let waits = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = {} AND wait_event = 'SyncRep'",
        running.pid()
    );
    let mut session = cluster.session("postgres")?;
    wait_until("the commit waits", Duration::from_secs(20), || {
        Ok(session.query_value::<i64>(&waits)? == 1)
    })?;
    session.batch(&format!("SELECT {function}({})", running.pid()))?;
    sleep(Duration::from_millis(200));
    cluster.set("synchronous_standby_names", "")?;
    cluster.reload()?;
    drop(running.join()?);
    cluster.allow_log("canceling (the )?wait for synchronous replication");
    Ok(())
}

#[test]
fn a_clone_whose_last_commit_waits_for_a_standby_is_never_removed() -> Result<()> {
    let (cluster, source) = with_source()?;
    for function in ["pg_terminate_backend", "pg_cancel_backend"] {
        interrupt_the_wait(&cluster, "publish.before_commit", function)?;
        expect_whole(&cluster, &source, "copy").map_err(|e| e.context(function))?;
        cluster.batch("postgres", &["DROP DATABASE copy"])?;
    }
    Ok(())
}

#[test]
fn a_clone_that_ends_while_its_first_commit_waits_leaves_nothing() -> Result<()> {
    let (cluster, source) = with_source()?;
    interrupt_the_wait(&cluster, "claim.before_commit", "pg_terminate_backend")?;
    expect_nothing_left(&cluster, "copy")?;
    // A cancel only ends the wait, as for every commit: the clone goes on.
    interrupt_the_wait(&cluster, "claim.before_commit", "pg_cancel_backend")?;
    expect_whole(&cluster, &source, "copy")
}

/// Rule 7 needs every file's sync request: the checkpoint after the clone has to sync them all.
#[test]
fn the_next_checkpoint_syncs_every_file_of_the_clone() -> Result<()> {
    let cluster = start(builder().set("fsync", "on").set("log_checkpoints", "on"))?;
    Source::new().rows(200).build(&cluster, "shop")?;
    cluster.checkpoint()?;
    let outcome = clone(&cluster, "shop", "copy")?;
    cluster.checkpoint()?;
    let log = cluster.log_text()?;
    let line = log
        .lines()
        .rfind(|line| line.contains("checkpoint complete"))
        .unwrap_or_default();
    let synced: u64 = line
        .split("sync files=")
        .nth(1)
        .and_then(|rest| rest.split(',').next()?.parse().ok())
        .ok_or_else(|| pg_test::Error::new(format!("no number of files in {line:?}")))?;
    let folder = cluster.relation_path("copy", "app.items")?;
    let folder = folder
        .parent()
        .ok_or_else(|| pg_test::Error::new("a path without a folder"))?;
    let files = std::fs::read_dir(folder)?.count() as u64;
    // PG_VERSION and the relation map are synced by the clone itself, the session's cache file by nobody.
    assert!(
        synced + 3 >= files && files >= outcome.relations,
        "{synced} of {files} files were synced"
    );
    Ok(())
}

#[test]
fn a_client_that_is_gone_leaves_nothing() -> Result<()> {
    let (cluster, _) = with_source()?;
    cluster.allow_log("connection to client lost");
    let mut gate = Gate::close(&cluster)?;
    let mut client = cluster.client("psql", "postgres")?;
    let settings =
        "SET client_connection_check_interval = '50ms'; SET blockwise.fault = 'copy.relation:99=wait'";
    let client = client.args(["-XAtq", "-c", settings, "-c", &call("shop", "copy", "")]);
    let mut client = client
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()?;
    gate.wait_for_any()?;
    let pid = i32::try_from(client.id()).map_err(|e| pg_test::Error::new(e.to_string()))?;
    pg_test::process::signal(pid, Signal::KILL)?;
    client.wait()?;
    sleep(Duration::from_millis(200));
    gate.open()?;
    wait_until("the clone is gone", Duration::from_secs(20), || {
        Ok(connection_limit(&cluster, "copy")?.is_none())
    })?;
    expect_nothing_left(&cluster, "copy")
}

/// Transaction ids are for the catalogs only: a clone must not eat them up.
#[test]
fn a_clone_takes_few_transaction_ids() -> Result<()> {
    let cluster = cluster()?;
    cluster.batch("postgres", &["CREATE DATABASE src"])?;
    let mut session = cluster.session("postgres")?;
    let next = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
    let before: i64 = session.query_value(next)?;
    session.batch(&call("src", "copy", ""))?;
    let after: i64 = session.query_value(next)?;
    assert!(after - before <= 4, "{} transaction ids", after - before);
    Ok(())
}
