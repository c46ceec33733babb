//! Goal: `blockwise.orphaned_files()` reports what nobody owns and nothing else. Method: files and folders laid by
//! hand, compared with the harness's own finder; files of running transactions, temporary tables, unfinished clones
//! and tombstones, which are no orphans.

use std::collections::BTreeSet;
use std::fs;

use pg_test::orphans::unowned_files;
use pg_test::{Cluster, Result, Source};

use crate::support::{clone, cluster, held_clone};

fn reported(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let rows = cluster
        .session("postgres")?
        .rows("SELECT path FROM blockwise.orphaned_files()")?;
    Ok(rows.into_iter().flatten().flatten().collect())
}

#[test]
fn what_nobody_owns_is_reported_with_size_and_time() -> Result<()> {
    let cluster = cluster()?;
    Source::new()
        .rows(100)
        .side_tablespace("side")
        .build(&cluster, "shop")?;
    assert_eq!(reported(&cluster)?, BTreeSet::new());
    let row = cluster.session("postgres")?.row("SELECT oid, (SELECT oid FROM pg_tablespace WHERE spcname = 'side') FROM pg_database WHERE datname = 'shop'")?;
    let [Some(shop), Some(side)] = row.as_slice() else {
        panic!("{row:?}")
    };
    let base = cluster.data().join("base");
    let in_side = cluster
        .relation_path("shop", "app.side")?
        .with_file_name("777777");
    fs::write(base.join(shop).join("999999"), vec![1; 8192])?;
    fs::write(base.join(shop).join("999999.1"), vec![1; 100])?;
    fs::write(base.join(shop).join("999998_fsm"), vec![1; 200])?;
    fs::write(&in_side, vec![1; 300])?;
    fs::create_dir(base.join("999997"))?;
    fs::write(base.join("999997/1259"), vec![1; 400])?;
    let ours: BTreeSet<String> = unowned_files(&cluster)?
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    assert_eq!(ours.len(), 5);
    let paths = reported(&cluster)?;
    for path in &ours {
        let inside = format!("{path}/");
        assert!(
            paths.iter().any(|p| p == path || p.starts_with(&inside)),
            "{path} is missing: {paths:?}"
        );
    }
    let question = format!(
        "SELECT count(*) FROM blockwise.orphaned_files() WHERE (tablespace, bytes) = ({side}, 300) AND database = {shop} \
         AND modified BETWEEN now() - interval '1 minute' AND now() + interval '1 minute'"
    );
    assert_eq!(cluster.session("postgres")?.query_value::<i64>(&question)?, 1);
    let bytes: i64 = cluster
        .session("postgres")?
        .query_value("SELECT sum(bytes)::bigint FROM blockwise.orphaned_files()")?;
    assert_eq!(bytes, 8192 + 100 + 200 + 300 + 400);
    Ok(())
}

#[test]
fn what_somebody_owns_is_not_reported() -> Result<()> {
    let cluster = cluster()?;
    Source::new()
        .rows(100)
        .side_tablespace("side")
        .build(&cluster, "shop")?;
    let mut running = cluster.session("shop")?;
    running.batch("BEGIN")?;
    running.batch("CREATE TABLE young AS SELECT repeat('x', 1000) FROM generate_series(1, 1000)")?;
    running.batch("VACUUM").err();
    running.batch("ROLLBACK")?;
    running.batch("BEGIN")?;
    running.batch("CREATE TABLE young AS SELECT repeat('x', 1000) b FROM generate_series(1, 1000)")?;
    running.batch("CREATE INDEX ON young (b)")?;
    running.batch("CREATE TEMP TABLE passing AS SELECT repeat('x', 1000) b FROM generate_series(1, 1000)")?;
    let mut temporary = cluster.session("shop")?;
    temporary.batch("CREATE TEMP TABLE mine AS SELECT repeat('x', 1000) b FROM generate_series(1, 1000)")?;
    // Dropped a moment ago: the empty first file waits for the next checkpoint.
    cluster.batch("shop", &["CREATE TABLE dead AS SELECT 1", "DROP TABLE dead"])?;
    cluster.batch("shop", &["VACUUM FULL pg_class", "VACUUM FULL app.churn"])?;
    assert_eq!(reported(&cluster)?, BTreeSet::new());
    running.batch("COMMIT")?;
    drop((running, temporary));
    assert_eq!(reported(&cluster)?, BTreeSet::new());

    let (gate, clone_running) = held_clone(&cluster, "copy.relation:99", "shop", "copy")?;
    assert_eq!(
        reported(&cluster)?,
        BTreeSet::new(),
        "an unfinished clone owns its files"
    );
    cluster.crash()?;
    drop((gate, clone_running.join()?));
    cluster.start()?;
    assert_eq!(
        reported(&cluster)?,
        BTreeSet::new(),
        "its row owns them after a crash"
    );
    cluster.batch("postgres", &["DROP DATABASE copy"])?;
    clone(&cluster, "shop", "copy")?;
    assert_eq!(reported(&cluster)?, BTreeSet::new());
    Ok(())
}

#[test]
fn only_superusers_may_ask() -> Result<()> {
    let cluster = cluster()?;
    cluster.batch(
        "postgres",
        &["CREATE ROLE nobody LOGIN", "GRANT pg_monitor TO nobody"],
    )?;
    let mut session = cluster.session_as("postgres", "nobody")?;
    session.expect_error("42501", "SELECT * FROM blockwise.orphaned_files()")?;
    Ok(())
}
