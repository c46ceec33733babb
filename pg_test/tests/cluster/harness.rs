//! Goal: the harness itself can be trusted. Method: core's own CREATE DATABASE, whose right and wrong sides are known:
//! the checks pass where core is right, and notice what core loses, what a file without an owner is, and what an
//! unexplained line in the log is.

use std::fs;
use std::time::Duration;

use pg_test::backup::Target;
use pg_test::checks::{amcheck, checksums, text};
use pg_test::orphans::{expect_no_unowned_files, unowned_files};
use pg_test::process::{Signal, wait_until};
use pg_test::{DiskKind, Fingerprint, ForkMaps, Result, SmallDisk, Source, StopMode};

use crate::support::{bare_cluster, builder};

const CLONE: &str = "CREATE DATABASE copy TEMPLATE shop";

#[test]
fn checks_pass_on_core_s_clone_and_show_what_it_loses() -> Result<()> {
    let primary = bare_cluster()?;
    Source::new().side_tablespace("side").build(&primary, "shop")?;
    let standby = primary.standby()?;
    primary.batch("postgres", &[CLONE])?;
    let source = Fingerprint::of(&primary, "shop")?;
    assert!(source.relations() > 100, "{} relations", source.relations());
    source.expect_equal(&Fingerprint::of(&primary, "copy")?)?;
    standby.wait_for_replay(&primary)?;
    source
        .permanent()
        .expect_equal(&Fingerprint::of(&standby, "copy")?)?;
    let maps = ForkMaps::of(&primary, "shop")?;
    assert!(maps.visibility_bits() > 100, "{} bits", maps.visibility_bits());
    maps.expect_equal(&ForkMaps::of(&primary, "copy")?)?;

    // Core logs map pages as standard pages, which drops their content: the standby's copy has none.
    standby.write_out_as_standby(&primary)?;
    let lost = ForkMaps::of(&standby, "copy")?;
    assert_eq!(lost.visibility_bits(), 0);
    assert!(maps.expect_equal(&lost).is_err());

    amcheck(&primary, "copy")?;
    expect_no_unowned_files(&primary)?;
    expect_no_unowned_files(&standby)?;
    for cluster in [&standby, &primary] {
        cluster.crash_and_recover()?;
        cluster.stop(StopMode::Fast)?;
        checksums(cluster)?;
        cluster.check_log()?;
    }
    Ok(())
}

#[test]
fn a_changed_row_and_a_damaged_page_are_noticed() -> Result<()> {
    let cluster = bare_cluster()?;
    Source::new().build(&cluster, "shop")?;
    cluster.batch("postgres", &[CLONE])?;
    cluster.batch("copy", &["UPDATE app.churn SET kept = 'other' WHERE id = 10"])?;
    let difference = Fingerprint::of(&cluster, "shop")?.expect_equal(&Fingerprint::of(&cluster, "copy")?);
    assert!(difference.is_err_and(|e| e.to_string().contains("app.churn")));

    cluster.allow_log("page verification failed|invalid page");
    let path = cluster.relation_path("copy", "app.churn")?;
    cluster.stop(StopMode::Fast)?;
    let mut bytes = fs::read(&path)?;
    bytes[5000] ^= 0xff;
    fs::write(&path, bytes)?;
    assert!(checksums(&cluster).is_err());
    cluster.start()?;
    assert!(amcheck(&cluster, "copy").is_err());
    Ok(())
}

#[test]
fn files_without_an_owner_are_found() -> Result<()> {
    let cluster = bare_cluster()?;
    Source::new().side_tablespace("side").build(&cluster, "shop")?;
    expect_no_unowned_files(&cluster)?;
    let side = cluster.relation_path("shop", "app.side")?;
    let oid: String = cluster
        .session("postgres")?
        .query_value("SELECT oid FROM pg_database WHERE datname = 'shop'")?;
    let folder = cluster.data().join("base").join(oid);
    fs::write(folder.join("999999"), "x")?;
    fs::write(folder.join("999998"), "")?;
    fs::write(folder.join("stray"), "x")?;
    fs::write(side.with_file_name("999997_vm.1"), "x")?;
    fs::create_dir(cluster.data().join("base/999996"))?;
    let mut found = unowned_files(&cluster)?;
    found.sort();
    let names: Vec<_> = found
        .iter()
        .filter_map(|path| path.file_name()?.to_str())
        .collect();
    assert_eq!(names, ["999999", "stray", "999996", "999997_vm.1"]);
    Ok(())
}

#[test]
fn sessions_in_the_background_are_cancelled_killed_and_joined() -> Result<()> {
    let cluster = bare_cluster()?;
    let sleeper = cluster.session("postgres")?.spawn("SELECT pg_sleep(60)");
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    let mut watcher = cluster.session("postgres")?;
    wait_until("the statement runs", Duration::from_secs(10), || {
        Ok(watcher.query_value::<i64>(sleeping)? == 1)
    })?;
    sleeper.cancel()?;
    let (session, error) = sleeper.join_error("57014")?;
    assert_eq!(error.message, "canceling statement due to user request");
    let sleeper = session.spawn("SELECT pg_sleep(60)");
    cluster.signal_backend(sleeper.pid(), Signal::KILL)?;
    let (_, result) = sleeper.join()?;
    assert!(result.is_err_and(|e| e.lost_connection()));
    cluster.wait_ready()?;
    let mut session = cluster.session("postgres")?;
    session.batch("DO $$ BEGIN RAISE NOTICE 'so far %', 1; END $$")?;
    assert_eq!(session.take_notices()[0].message, "so far 1");
    assert_eq!(session.expect_error("22012", "SELECT 1/0")?.severity, "ERROR");
    cluster.kill_postmaster()?;
    cluster.start()?;
    let output = cluster.psql("postgres", "SELECT 1;\nSELECT 2/0;")?;
    cluster.allow_log("division by zero");
    assert!(!output.status.success() && text(&output).contains("division by zero"));
    Ok(())
}

#[test]
fn an_unexplained_line_in_the_log_fails_and_an_explained_one_does_not() -> Result<()> {
    let cluster = bare_cluster()?;
    cluster.session("postgres")?.expect_error("22012", "SELECT 1/0")?;
    cluster.check_log()?;
    cluster.psql("postgres", "SELECT 'x'::int")?;
    let complaint = cluster
        .check_log()
        .err()
        .map(|e| e.to_string())
        .unwrap_or_default();
    assert!(
        complaint.contains("invalid input syntax") && !complaint.contains("division"),
        "{complaint}"
    );
    cluster.allow_log("invalid input syntax");
    cluster.check_log()
}

#[test]
fn a_backup_is_restored_to_a_point_and_a_standby_promoted() -> Result<()> {
    let primary = builder().archiving().start()?;
    primary.batch(
        "postgres",
        &["CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)"],
    )?;
    let backup = primary.base_backup(&["-X", "none"])?;
    primary.batch(
        "postgres",
        &[
            "INSERT INTO t VALUES (2)",
            "SELECT pg_create_restore_point('two')",
            "INSERT INTO t VALUES (3)",
        ],
    )?;
    let standby = primary.standby()?;
    primary.archive_all()?;
    let archive = primary.archive_folder();
    for (target, rows) in [(Target::Name("two".into()), 2), (Target::Lsn(primary.lsn()?), 3)] {
        primary.batch("postgres", &["INSERT INTO t VALUES (4)"])?;
        primary.archive_all()?;
        let restored = backup.restore(&archive, &target)?;
        let count: i64 = restored
            .session("postgres")?
            .query_value("SELECT count(*) FROM t")?;
        assert_eq!(count, rows, "{target:?}");
    }
    standby.wait_for_replay(&primary)?;
    standby.promote()?;
    standby.batch("postgres", &["INSERT INTO t VALUES (5)"])
}

#[test]
fn a_small_disk_fills() -> Result<()> {
    for kind in [DiskKind::Tmpfs, DiskKind::Ext4, DiskKind::Xfs] {
        let Some(disk) = SmallDisk::mount(kind, 30) else {
            continue;
        };
        let cluster = bare_cluster()?;
        let location = disk.path().display().to_string();
        cluster.batch(
            "postgres",
            &[&format!("CREATE TABLESPACE small LOCATION '{location}'")],
        )?;
        let mut session = cluster.session("postgres")?;
        session.batch("CREATE TABLE t (a text) TABLESPACE small")?;
        disk.fill_leaving(1000)?;
        let insert = "INSERT INTO t SELECT repeat('x', 1000) FROM generate_series(1, 20000)";
        session.expect_error("53100", insert)?;
        disk.make_room()?;
        session.batch("INSERT INTO t VALUES ('x')")?;
        drop(cluster);
    }
    Ok(())
}

#[test]
fn waiting_ends_with_an_error_when_nothing_comes() {
    let waited = wait_until("nothing", Duration::from_millis(20), || Ok(false));
    assert!(waited.is_err_and(|e| e.to_string().contains("nothing")));
}
