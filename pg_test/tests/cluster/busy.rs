//! Goal: a source in use is refused at once with names, waited for, or freed, as asked; nobody is disconnected unasked
//! (S19). Method: idle sessions, prepared transactions, walsenders, autovacuum, sessions that come and go meanwhile.

use std::thread::sleep;
use std::time::{Duration, Instant};

use pg_test::process::wait_until;
use pg_test::{Cluster, Fingerprint, Result, Source};

use crate::support::{call, clone, cluster, expect_nothing_left, expect_whole, held_clone, start};

const SECOND: Duration = Duration::from_secs(1);

fn with_source() -> Result<Cluster> {
    let cluster = cluster()?;
    cluster.batch(
        "postgres",
        &[
            "CREATE DATABASE src",
            "CREATE ROLE maker LOGIN CREATEDB",
            "ALTER DATABASE src OWNER TO maker",
            "CREATE ROLE other LOGIN",
        ],
    )?;
    Ok(cluster)
}

#[test]
fn a_session_is_named_at_once() -> Result<()> {
    let cluster = with_source()?;
    let blocker = cluster.session_named("src", "other", "the reporting tool")?;
    let mut session = cluster.session("postgres")?;
    let asked = Instant::now();
    let error = session.expect_error("55006", &call("src", "copy", ""))?;
    assert!(asked.elapsed() < SECOND, "refused after {:?}", asked.elapsed());
    let detail = error.detail.clone().unwrap_or_default();
    let pid = blocker.pid().to_string();
    for word in [
        pid.as_str(),
        "other",
        "the reporting tool",
        "client backend",
        "idle",
        "since 20",
    ] {
        assert!(detail.contains(word), "{word:?} is missing: {detail}");
    }
    assert!(
        error.hint.as_deref().is_some_and(|hint| hint.contains("on_busy")),
        "{error}"
    );

    // Others' details are for those who may see them in pg_stat_activity.
    let mut maker = cluster.session_as("postgres", "maker")?;
    let error = maker.expect_error("55006", &call("src", "copy", ""))?;
    let detail = error.detail.clone().unwrap_or_default();
    assert!(
        detail.contains("1 session") && !detail.contains("reporting") && !detail.contains(&pid),
        "{detail}"
    );
    cluster.batch("postgres", &["GRANT pg_read_all_stats TO maker"])?;
    let error = maker.expect_error("55006", &call("src", "copy", ""))?;
    assert!(
        error
            .detail
            .as_deref()
            .is_some_and(|detail| detail.contains("reporting")),
        "{error}"
    );
    drop((blocker, maker, session));
    expect_nothing_left(&cluster, "copy")?;
    clone(&cluster, "src", "copy").map(|_| ())
}

#[test]
fn a_session_in_the_middle_of_something_is_named_with_its_state() -> Result<()> {
    let cluster = with_source()?;
    let mut open = cluster.session("src")?;
    open.batch("BEGIN")?;
    let busy = cluster.session("src")?.spawn("SELECT pg_sleep(1)");
    let mut session = cluster.session("postgres")?;
    let error = session.expect_error("55006", &call("src", "copy", ""))?;
    let detail = error.detail.clone().unwrap_or_default();
    assert!(
        detail.contains("idle in transaction") && detail.contains("active"),
        "{detail}"
    );
    busy.join_ok()?;
    Ok(())
}

#[test]
fn a_prepared_transaction_is_named_by_its_gid() -> Result<()> {
    let cluster = with_source()?;
    cluster.batch(
        "src",
        &[
            "CREATE TABLE t (a int)",
            "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'order 66'",
        ],
    )?;
    let mut session = cluster.session("postgres")?;
    for option in [
        "",
        "on_busy => 'terminate'",
        "on_busy => 'wait', timeout => '200ms'",
    ] {
        let asked = Instant::now();
        let error = session.expect_error("55006", &call("src", "copy", option))?;
        assert!(
            asked.elapsed() < SECOND,
            "{option}: refused after {:?}",
            asked.elapsed()
        );
        let detail = error.detail.clone().unwrap_or_default();
        assert!(
            detail.contains("order 66") && detail.contains("postgres"),
            "{option}: {detail}"
        );
    }
    cluster.batch("src", &["COMMIT PREPARED 'order 66'"])?;
    clone(&cluster, "src", "copy")?;
    let rows: i64 = cluster.session("copy")?.query_value("SELECT count(*) FROM t")?;
    assert_eq!(rows, 1);
    Ok(())
}

#[test]
fn a_replication_connection_to_the_source_is_named() -> Result<()> {
    let cluster = start(crate::support::builder().set("wal_level", "logical"))?;
    cluster.batch("postgres", &["CREATE DATABASE src"])?;
    cluster.batch(
        "src",
        &["SELECT pg_create_logical_replication_slot('s', 'test_decoding')"],
    )?;
    let mut receiver = cluster.client("pg_recvlogical", "src")?;
    let mut receiver = receiver
        .args(["--slot", "s", "--start", "-f", "-"])
        .stdout(std::process::Stdio::null())
        .spawn()?;
    let mut session = cluster.session("postgres")?;
    let question = "SELECT count(*) FROM pg_stat_replication";
    wait_until("the receiver is there", 10 * SECOND, || {
        Ok(session.query_value::<i64>(question)? == 1)
    })?;
    let error = session.expect_error("55006", &call("src", "copy", ""));
    receiver.kill()?;
    receiver.wait()?;
    let error = error?;
    assert!(
        error
            .detail
            .as_deref()
            .is_some_and(|detail| detail.contains("walsender")),
        "{error}"
    );
    cluster.wait_unused("src")?;
    // The slot alone is no blocker; it stays the source's, and the clone has none.
    clone(&cluster, "src", "copy").map(|_| ())
}

#[test]
fn waiting_lets_others_in_and_ends_when_they_leave() -> Result<()> {
    let cluster = with_source()?;
    cluster.batch("src", &["CREATE TABLE t (a int)"])?;
    let mut blocker = cluster.session("src")?;
    let waiting =
        cluster
            .session("postgres")?
            .spawn(call("src", "copy", "on_busy => 'wait', timeout => '60s'"));
    for number in 0..4 {
        sleep(Duration::from_millis(150));
        assert!(!waiting.is_finished());
        // Nobody is shut out while we wait.
        let asked = Instant::now();
        let mut passer = cluster.session("src")?;
        assert!(
            asked.elapsed() < SECOND,
            "a new session waited {:?}",
            asked.elapsed()
        );
        passer.batch("SET lock_timeout = '1s'")?;
        passer.batch(&format!("INSERT INTO t VALUES ({number})"))?;
    }
    blocker.batch("INSERT INTO t VALUES (99)")?;
    drop(blocker);
    waiting.join_ok()?;
    expect_whole(&cluster, &Fingerprint::of(&cluster, "src")?, "copy")?;
    let rows: i64 = cluster.session("copy")?.query_value("SELECT count(*) FROM t")?;
    assert_eq!(rows, 5);
    Ok(())
}

#[test]
fn waiting_in_vain_ends_at_the_timeout_with_names() -> Result<()> {
    let cluster = with_source()?;
    let _blocker = cluster.session_named("src", "other", "forever")?;
    let mut session = cluster.session("postgres")?;
    let asked = Instant::now();
    let error = session.expect_error(
        "55006",
        &call("src", "copy", "on_busy => 'wait', timeout => '700ms'"),
    )?;
    let took = asked.elapsed();
    assert!(
        took >= Duration::from_millis(700) && took < 2 * SECOND,
        "gave up after {took:?}"
    );
    assert!(
        error
            .detail
            .as_deref()
            .is_some_and(|detail| detail.contains("forever")),
        "{error}"
    );
    let asked = Instant::now();
    session.expect_error("55006", &call("src", "copy", "on_busy => 'wait', timeout => '0'"))?;
    assert!(asked.elapsed() < SECOND);
    // A cancel is answered while waiting.
    let waiting = session.spawn(call("src", "copy", "on_busy => 'wait'"));
    sleep(Duration::from_millis(300));
    let asked = Instant::now();
    waiting.cancel()?;
    let (session, _) = waiting.join_error("57014")?;
    assert!(asked.elapsed() < SECOND, "cancelled after {:?}", asked.elapsed());
    drop((session, _blocker));
    expect_nothing_left(&cluster, "copy")
}

#[test]
fn terminate_ends_sessions_and_keeps_new_ones_out_until_the_clone_is_there() -> Result<()> {
    let cluster = with_source()?;
    let idle = cluster.session("src")?;
    let busy = cluster.session("src")?.spawn("SELECT pg_sleep(100)");
    clone_terminating(&cluster)?;
    let (_, ended) = busy.join()?;
    assert!(ended.is_err_and(|e| e.lost_connection()));
    drop(idle);
    expect_whole(&cluster, &Fingerprint::of(&cluster, "src")?, "copy")
}

fn clone_terminating(cluster: &Cluster) -> Result<()> {
    let asked = Instant::now();
    cluster
        .session("postgres")?
        .batch(&call("src", "copy", "on_busy => 'terminate', timeout => '10s'"))?;
    assert!(asked.elapsed() < 5 * SECOND, "{:?}", asked.elapsed());
    Ok(())
}

/// New sessions of the source wait for the clone, as with core's; they are not refused, and they get in afterwards.
#[test]
fn a_new_session_of_the_source_waits_for_the_clone() -> Result<()> {
    let cluster = with_source()?;
    let (gate, running) = held_clone(&cluster, "copy.relation:20", "src", "copy")?;
    let came_in = std::thread::scope(|threads| -> Result<_> {
        let newcomer = threads.spawn(|| cluster.session("src").map(|_| Instant::now()));
        sleep(Duration::from_millis(400));
        assert!(
            !newcomer.is_finished(),
            "a session got into the source during the clone"
        );
        let opened = Instant::now();
        gate.open()?;
        let came_in = newcomer
            .join()
            .map_err(|_| pg_test::Error::new("the newcomer panicked"))??;
        Ok((opened, came_in))
    })?;
    running.join_ok()?;
    assert!(came_in.1 >= came_in.0);
    clone(&cluster, "src", "copy_2").map(|_| ())
}

/// Autovacuum workers are sent away as core does; they are no blockers.
#[test]
fn autovacuum_is_no_blocker() -> Result<()> {
    let options = crate::support::builder()
        .set("autovacuum", "on")
        .set("autovacuum_naptime", "1s")
        .set("autovacuum_vacuum_cost_delay", "20ms")
        .allow_log("terminating autovacuum process due to administrator command|canceling autovacuum task");
    let cluster = start(options)?;
    Source::new()
        .rows(500)
        .without_zero_tail()
        .build(&cluster, "shop")?;
    for number in 0..6 {
        cluster.batch(
            "shop",
            &[
                "UPDATE app.items SET name = name || 'x'",
                "UPDATE app.churn SET kept = 'y'",
            ],
        )?;
        let worker = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker' AND datname = 'shop'";
        let mut session = cluster.session("postgres")?;
        // Where one comes in time we meet it; where none comes nothing is lost.
        let _ = wait_until("a worker", 2 * SECOND, || {
            Ok(session.query_value::<i64>(worker)? > 0)
        });
        session.batch(&call("shop", &format!("copy_{number}"), ""))?;
    }
    Ok(())
}
