//! Goal: sources with a history are copied as the catalog says, not as the directory looks. Method: the recipes of the
//! situations: invalid databases (S11), collation versions (S16), explicit tablespaces (S21), unlogged relations
//! (S22), temporary leftovers (S23), orphaned files (S25).

use std::fs;
use std::time::Duration;

use pg_test::checks::amcheck;
use pg_test::orphans::{expect_no_unowned_files, unowned_files};
use pg_test::process::{Signal, wait_until};
use pg_test::{Cluster, Fingerprint, Result, Source};

use crate::support::{
    builder, call, clone, clone_with, cluster, connection_limit, expect_nothing_left, expect_whole, start,
};

/// S11: what an interrupted DROP DATABASE left.
#[test]
fn an_invalid_database_is_no_source_and_can_be_dropped() -> Result<()> {
    let cluster = cluster()?;
    cluster.batch(
        "postgres",
        &[
            "CREATE DATABASE inv",
            "UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'inv'",
        ],
    )?;
    let mut session = cluster.session("postgres")?;
    let error = session.expect_error("55000", &call("inv", "x", ""))?;
    assert!(
        error.message.contains("inv") && error.message.contains("invalid"),
        "{error}"
    );
    assert!(
        error
            .hint
            .as_deref()
            .is_some_and(|hint| hint.contains("DROP DATABASE")),
        "{error}"
    );
    assert!(
        cluster
            .session("inv")
            .err()
            .is_some_and(|e| e.severity == "FATAL")
    );
    session.batch("DROP DATABASE inv")?;
    expect_nothing_left(&cluster, "inv")?;
    expect_nothing_left(&cluster, "x")
}

/// S11: DROP DATABASE of a finished clone, cancelled at moments that nobody chose: it is there whole, or invalid.
#[test]
fn an_interrupted_drop_of_a_clone_leaves_it_whole_or_invalid() -> Result<()> {
    let cluster = start(builder().set("fsync", "on"))?;
    Source::new().rows(300).build(&cluster, "shop")?;
    let source = Fingerprint::of(&cluster, "shop")?;
    for delay in 0..12_u64 {
        clone(&cluster, "shop", "copy")?;
        let running = cluster.session("postgres")?.spawn("DROP DATABASE copy");
        std::thread::sleep(Duration::from_millis(delay * 4));
        if delay % 2 == 0 {
            running.cancel()?;
        } else {
            let _ = cluster.signal_backend(running.pid(), Signal::TERM);
        }
        drop(running.join()?);
        match connection_limit(&cluster, "copy")? {
            None => {}
            Some(-2) => cluster.batch("postgres", &["DROP DATABASE copy"])?,
            Some(_) => {
                expect_whole(&cluster, &source, "copy")?;
                cluster.batch("postgres", &["DROP DATABASE copy"])?;
            }
        }
        expect_nothing_left(&cluster, "copy")?;
    }
    Ok(())
}

/// S16: the operating system's collation library is not the one that the source's indexes were built with.
#[test]
fn another_collation_version_is_refused_until_it_is_refreshed() -> Result<()> {
    let cluster = cluster()?;
    if !cluster.installation().has_feature("--with-icu") {
        println!("SKIPPED: the server was built without ICU");
        return Ok(());
    }
    let create = "CREATE DATABASE icu TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'";
    let age = "UPDATE pg_database SET datcollversion = '1.1' WHERE datname = 'icu'";
    cluster.batch("postgres", &[create, age])?;
    cluster.allow_log("collation version mismatch");
    let mut session = cluster.session("postgres")?;
    let error = session.expect_error("XX000", &call("icu", "copy", ""))?;
    assert!(error.message.contains("collation version"), "{error}");
    let hint = error.hint.clone().unwrap_or_default();
    assert!(
        hint.contains("ALTER DATABASE") && hint.contains("REFRESH COLLATION VERSION"),
        "{error}"
    );
    session.batch("ALTER DATABASE icu REFRESH COLLATION VERSION")?;
    session.batch(&call("icu", "copy", ""))?;
    let versions = session.rows(
        "SELECT DISTINCT datcollversion, datlocprovider FROM pg_database WHERE datname IN ('icu', 'copy')",
    )?;
    assert_eq!(versions.len(), 1, "{versions:?}");
    expect_whole(&cluster, &Fingerprint::of(&cluster, "icu")?, "copy")
}

fn path_of(cluster: &Cluster, database: &str, relation: &str) -> Result<String> {
    Ok(cluster
        .session(database)?
        .query_value(&format!("SELECT pg_relation_filepath('{relation}')"))?)
}

/// S21: another default tablespace. Explicit places stay, the rest follows.
#[test]
fn relations_with_a_tablespace_of_their_own_keep_it() -> Result<()> {
    let primary = cluster()?;
    primary.batch(
        "postgres",
        &[
            "CREATE TABLESPACE ts1 LOCATION ''",
            "CREATE TABLESPACE ts2 LOCATION ''",
            "CREATE DATABASE src",
        ],
    )?;
    primary.batch(
        "src",
        &[
            "CREATE TABLE here (a int)",
            "CREATE TABLE there (a int) TABLESPACE ts1",
            "INSERT INTO there VALUES (7)",
        ],
    )?;
    let standby = primary.standby()?;
    let mut session = primary.session("postgres")?;
    session.expect_error("0A000", &call("src", "copy", "tablespace => 'ts1'"))?;
    expect_nothing_left(&primary, "copy")?;
    clone_with(&mut session, "src", "copy", "tablespace => 'ts2'")?;
    let oid = |name: &str| format!("SELECT oid FROM pg_tablespace WHERE spcname = '{name}'");
    let ts1: String = session.query_value(&oid("ts1"))?;
    let ts2: String = session.query_value(&oid("ts2"))?;
    standby.wait_for_replay(&primary)?;
    for cluster in [&primary, &standby] {
        assert!(path_of(cluster, "copy", "there")?.starts_with(&format!("pg_tblspc/{ts1}/")));
        for relation in ["here", "pg_class", "pg_proc"] {
            assert!(
                path_of(cluster, "copy", relation)?.starts_with(&format!("pg_tblspc/{ts2}/")),
                "{relation}"
            );
        }
        let value: i32 = cluster.session("copy")?.query_value("SELECT a FROM there")?;
        assert_eq!(value, 7);
        expect_no_unowned_files(cluster)?;
    }
    expect_whole(&primary, &Fingerprint::of(&primary, "src")?, "copy")?;
    // And back: the clone of the clone in the default tablespace again.
    clone_with(&mut session, "copy", "back", "tablespace => 'pg_default'")?;
    assert!(path_of(&primary, "back", "here")?.starts_with("base/"));
    primary.crash_and_recover()?;
    expect_whole(&primary, &Fingerprint::of(&primary, "src")?, "back")
}

/// S22: unlogged relations are full in the clone, and empty but usable after a crash or a promotion.
#[test]
fn unlogged_relations_are_full_in_the_clone_and_empty_after_a_crash_or_promotion() -> Result<()> {
    let primary = cluster()?;
    Source::new().rows(500).build(&primary, "shop")?;
    primary.batch("shop", &["CREATE UNLOGGED SEQUENCE app.fast"])?;
    let standby = primary.standby()?;
    clone(&primary, "shop", "copy")?;
    let rows: i64 = primary
        .session("copy")?
        .query_value("SELECT count(*) FROM app.scratch")?;
    assert_eq!(rows, 500);
    amcheck(&primary, "copy")?;
    standby.wait_for_replay(&primary)?;
    standby.promote()?;
    expect_empty_and_usable(&standby)?;
    primary.crash_and_recover()?;
    expect_empty_and_usable(&primary)
}

fn expect_empty_and_usable(cluster: &Cluster) -> Result<()> {
    let mut session = cluster.session("copy")?;
    let rows: i64 = session.query_value("SELECT count(*) FROM app.scratch")?;
    assert_eq!(rows, 0);
    let insert = "INSERT INTO app.scratch (word, tags, span, place, at, body) \
                  VALUES ('w', '{t}', '[1,2)', point(1, 2), now(), repeat('x', 9000)) RETURNING id";
    let id: i64 = session.query_value(insert)?;
    assert_eq!(id, 1, "the identity's sequence starts again");
    session.batch("SET enable_seqscan = off")?;
    for condition in [
        "word = 'w'",
        "tags @> '{t}'",
        "span @> 1",
        "place <@ box '((0,0),(5,5))'",
        "at <= now()",
    ] {
        let found: i64 =
            session.query_value(&format!("SELECT count(*) FROM app.scratch WHERE {condition}"))?;
        assert_eq!(found, 1, "{condition}");
    }
    session.batch("INSERT INTO app.scratch_empty VALUES (1)")?;
    drop(session);
    amcheck(cluster, "copy")
}

fn database_folder(cluster: &Cluster, database: &str) -> Result<std::path::PathBuf> {
    let oid: String = cluster.session("postgres")?.query_value(&format!(
        "SELECT oid FROM pg_database WHERE datname = '{database}'"
    ))?;
    Ok(cluster.data().join("base").join(oid))
}

fn folder_bytes(folder: &std::path::Path) -> Result<u64> {
    let lengths: std::io::Result<Vec<u64>> = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.metadata()?.len()))
        .collect();
    Ok(lengths?.iter().sum())
}

/// S23: rows of temporary tables whose session died.
#[test]
fn rows_of_dead_temporary_tables_come_without_files_and_can_be_dropped() -> Result<()> {
    let cluster = cluster()?;
    cluster.batch("postgres", &["CREATE DATABASE src"])?;
    let mut doomed = cluster.session("src")?;
    doomed.batch("CREATE TEMP TABLE gone (a serial PRIMARY KEY, b text)")?;
    doomed.batch("INSERT INTO gone (b) SELECT repeat('x', 100) FROM generate_series(1, 1000)")?;
    cluster.signal_backend(doomed.pid(), Signal::KILL)?;
    drop(doomed);
    cluster.crash_and_recover()?;
    clone(&cluster, "src", "copy")?;
    let leftovers = "SELECT count(*) FROM pg_class WHERE relpersistence = 't'";
    let rows: i64 = cluster.session("copy")?.query_value(leftovers)?;
    assert!(rows > 0, "the rows are there, as in core's clone");
    let files = fs::read_dir(database_folder(&cluster, "copy")?)?;
    let temporary = files
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with('t'));
    assert_eq!(temporary.count(), 0);
    cluster.allow_log("orphan temp table");
    cluster.set("autovacuum", "on")?;
    cluster.set("autovacuum_naptime", "1s")?;
    cluster.reload()?;
    let mut session = cluster.session("copy")?;
    wait_until("autovacuum drops the rows", Duration::from_secs(60), || {
        Ok(session.query_value::<i64>(leftovers)? == 0)
    })?;
    drop(session);
    amcheck(&cluster, "copy")
}

/// S25: the file of a table whose creation died. It is the source's, and does not travel.
#[test]
fn orphaned_files_of_the_source_do_not_travel() -> Result<()> {
    let cluster = cluster()?;
    cluster.batch("postgres", &["CREATE DATABASE src"])?;
    let mut doomed = cluster.session("src")?;
    doomed.batch("BEGIN; CREATE TABLE gone AS SELECT repeat('x', 1000) b FROM generate_series(1, 30000)")?;
    doomed.batch("SELECT pg_switch_wal()")?;
    cluster.signal_backend(doomed.pid(), Signal::KILL)?;
    drop(doomed);
    cluster.wait_ready()?;
    let found = unowned_files(&cluster)?;
    assert!(!found.is_empty(), "the killed transaction left its table");
    let reported = cluster
        .session("postgres")?
        .rows("SELECT path FROM blockwise.orphaned_files() ORDER BY 1")?;
    let reported: Vec<String> = reported.into_iter().flatten().flatten().collect();
    let mut expected: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
    expected.sort();
    assert_eq!(reported, expected);
    clone(&cluster, "src", "copy")?;
    let (source, copy) = (
        database_folder(&cluster, "src")?,
        database_folder(&cluster, "copy")?,
    );
    let (source_bytes, copy_bytes) = (folder_bytes(&source)?, folder_bytes(&copy)?);
    assert!(
        copy_bytes + (30 << 20) < source_bytes,
        "{copy_bytes} of {source_bytes} bytes"
    );
    assert_eq!(unowned_files(&cluster)?, found, "still the source's only");
    Fingerprint::of(&cluster, "src")?.expect_equal(&Fingerprint::of(&cluster, "copy")?)
}
