//! Goal: a clone can be watched, by those who may, and tells what it does to who asks. Method: the view read while the
//! clone stands at fault points of each phase, by several roles; the notices of a session with and without
//! `log_progress`.

use pg_test::{Cluster, Result, Session};

use crate::support::{call, cluster, held_clone};

const VIEW: &str = "SELECT pid, source, target, phase, relations_done, relations_total, bytes_done, bytes_total, \
                    started <= clock_timestamp() FROM blockwise.progress";

fn with_source() -> Result<Cluster> {
    let cluster = cluster()?;
    cluster.batch(
        "postgres",
        &[
            "CREATE DATABASE src",
            "CREATE ROLE nobody LOGIN",
            "CREATE ROLE watcher LOGIN",
            "GRANT pg_monitor TO watcher",
            "CREATE ROLE maker LOGIN CREATEDB",
            "ALTER DATABASE src OWNER TO maker",
        ],
    )?;
    Ok(cluster)
}

fn watch(session: &mut Session) -> Result<Vec<Vec<String>>> {
    let rows = session.rows(VIEW)?;
    Ok(rows
        .into_iter()
        .map(|row| row.into_iter().map(Option::unwrap_or_default).collect())
        .collect())
}

#[test]
fn every_phase_shows_in_the_view() -> Result<()> {
    let cluster = with_source()?;
    let mut watcher = cluster.session_as("postgres", "watcher")?;
    assert!(watch(&mut watcher)?.is_empty());
    let points = [
        ("claim.after_commit", "claim"),
        ("flush.buffer", "flush"),
        ("copy.relation:30", "copy"),
        ("publish.start", "publish"),
    ];
    for (point, phase) in points {
        cluster.batch(
            "src",
            &["CREATE TABLE IF NOT EXISTS t (a int)", "INSERT INTO t VALUES (1)"],
        )?;
        let (gate, running) = held_clone(&cluster, point, "src", "copy")?;
        let rows = watch(&mut watcher)?;
        let [row] = rows.as_slice() else {
            panic!("{point}: {rows:?}")
        };
        assert_eq!(row[0], running.pid().to_string(), "{point}");
        assert_eq!(row[1], "src", "{point}");
        assert_eq!(row[3], phase, "{point}");
        assert_eq!(row[8], "t", "{point}: started");
        if phase == "copy" {
            assert_eq!(row[2], "copy");
            let number = |column: usize| row[column].parse::<i64>().unwrap_or(-1);
            assert_eq!(number(4), 30, "{row:?}");
            assert!(
                number(5) > 200 && number(6) > 0 && number(7) > number(6),
                "{row:?}"
            );
        }
        gate.open()?;
        running.join_ok()?;
        assert!(watch(&mut watcher)?.is_empty(), "{point}: after the end");
        cluster.batch("postgres", &["DROP DATABASE copy"])?;
    }
    Ok(())
}

#[test]
fn a_cleanup_shows_in_the_view_and_its_end_does_too() -> Result<()> {
    let cluster = with_source()?;
    let mut watcher = cluster.session_as("postgres", "watcher")?;
    let mut gate = crate::support::Gate::close(&cluster)?;
    cluster.batch("src", &["CREATE TABLE t AS SELECT generate_series(1, 1000) a"])?;
    cluster.allow_log("page verification failed|invalid page");
    damage(&cluster)?;
    gate.reopen_after_restart(&cluster)?;
    let session = crate::support::session_with_fault(&cluster, "cleanup.start=wait")?;
    let running = session.spawn(call("src", "copy", ""));
    gate.wait_for(&running)?;
    drop(watcher);
    watcher = cluster.session_as("postgres", "watcher")?;
    let rows = watch(&mut watcher)?;
    assert_eq!(
        rows.first().map(|row| row[3].as_str()),
        Some("cleanup"),
        "{rows:?}"
    );
    gate.open()?;
    let (session, _) = running.join_error("XX001")?;
    assert!(watch(&mut watcher)?.is_empty());
    drop(session);
    Ok(())
}

fn damage(cluster: &Cluster) -> Result<()> {
    let path = cluster.relation_path("src", "t")?;
    cluster.stop(pg_test::StopMode::Fast)?;
    let mut bytes = std::fs::read(&path)?;
    bytes[5000] ^= 1;
    std::fs::write(&path, bytes)?;
    cluster.start()
}

#[test]
fn who_may_not_see_sessions_sees_no_clones() -> Result<()> {
    let cluster = with_source()?;
    let mut gate = crate::support::Gate::close(&cluster)?;
    let mut maker = cluster.session("postgres")?;
    // The setting is a superuser's; the clone runs as an ordinary role.
    maker.batch("SET blockwise.fault = 'copy.relation:30=wait'; SET SESSION AUTHORIZATION maker")?;
    let running = maker.spawn(call("src", "copy", ""));
    gate.wait_for(&running)?;
    let mut seen = Vec::new();
    for role in ["postgres", "watcher", "maker", "nobody"] {
        seen.push((role, watch(&mut cluster.session_as("postgres", role)?)?.len()));
    }
    assert_eq!(seen[..2], [("postgres", 1), ("watcher", 1)]);
    assert_eq!(seen[3], ("nobody", 0));
    gate.open()?;
    running.join_ok()?;
    Ok(())
}

#[test]
fn ones_own_clone_shows_without_any_right() -> Result<()> {
    let cluster = with_source()?;
    // The role can arm the fault itself, so the session is its own from the start.
    cluster.batch(
        "postgres",
        &["ALTER ROLE maker SET blockwise.fault = 'copy.relation:30=wait'"],
    )?;
    let mut gate = crate::support::Gate::close(&cluster)?;
    let running = cluster
        .session_as("postgres", "maker")?
        .spawn(call("src", "copy", ""));
    gate.wait_for(&running)?;
    for (role, rows) in [("maker", 1), ("nobody", 0)] {
        assert_eq!(
            watch(&mut cluster.session_as("postgres", role)?)?.len(),
            rows,
            "{role}"
        );
    }
    gate.open()?;
    running.join_ok()?;
    Ok(())
}

#[test]
fn notices_come_only_when_asked_for() -> Result<()> {
    let cluster = with_source()?;
    let mut session = cluster.session("postgres")?;
    session.batch(&call("src", "copy_1", ""))?;
    assert_eq!(session.take_notices(), []);
    session.batch(&call("src", "copy_2", "log_progress => true"))?;
    let told: Vec<String> = session
        .take_notices()
        .into_iter()
        .map(|notice| notice.message)
        .collect();
    for phase in ["claim", "flush", "copy", "publish"] {
        assert!(
            told.iter().any(|line| line.contains(phase)),
            "{phase} is missing: {told:?}"
        );
    }
    Ok(())
}
