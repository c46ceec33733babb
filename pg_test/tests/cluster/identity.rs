//! Goal: a clone is the source, block for block, on the primary and on a standby, before and after a crash of either,
//! with the maps that core loses. Method: fingerprints, map files byte by byte, PostgreSQL's own checkers, and what a
//! user sees of the visibility map: the heap fetches of an index-only scan.

use pg_test::checks::{amcheck, checksums};
use pg_test::orphans::expect_no_unowned_files;
use pg_test::{Cluster, Fingerprint, ForkMaps, Result, Source, StopMode};

use crate::support::{builder, clone, cluster, expect_whole, start};

/// What a clone has to equal, taken from the source at the time of the clone.
struct Original {
    fingerprint: Fingerprint,
    maps: ForkMaps,
    heap_fetches: String,
}

impl Original {
    fn of(cluster: &Cluster, database: &str) -> Result<Self> {
        Ok(Self {
            fingerprint: Fingerprint::of(cluster, database)?,
            maps: ForkMaps::of(cluster, database)?,
            heap_fetches: heap_fetches(cluster, database)?,
        })
    }

    /// Everything that outlives a crash and travels to a standby.
    fn expect_in(&self, cluster: &Cluster, database: &str, when: &str) -> Result<()> {
        self.compare(cluster, database).map_err(|e| e.context(when))
    }

    fn compare(&self, cluster: &Cluster, database: &str) -> Result<()> {
        let found = Fingerprint::of(cluster, database)?.permanent();
        self.fingerprint.permanent().expect_equal(&found)?;
        self.maps.expect_equal(&ForkMaps::of(cluster, database)?)?;
        assert_eq!(heap_fetches(cluster, database)?, self.heap_fetches);
        Ok(())
    }
}

/// The line "Heap Fetches: N" of an index-only scan over the whole of `app.items`.
fn heap_fetches(cluster: &Cluster, database: &str) -> Result<String> {
    let mut session = cluster.session(database)?;
    session.batch("SET enable_seqscan = off; SET enable_bitmapscan = off")?;
    let plan = session.rows(
        "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT count(id) FROM app.items WHERE id > 0",
    )?;
    let line = plan
        .into_iter()
        .flatten()
        .flatten()
        .find(|line| line.contains("Heap Fetches"));
    line.ok_or_else(|| pg_test::Error::new("no index-only scan"))
}

#[test]
fn a_clone_equals_its_source_on_primary_and_standby_before_and_after_crashes() -> Result<()> {
    let primary = start(builder().set("fsync", "on"))?;
    Source::new().side_tablespace("side").build(&primary, "shop")?;
    let standby = primary.standby()?;
    // Dirty buffers, and all-visible pages that are so no more. Nothing that a reader could prune: replay of that would
    // change the free space map.
    let inserts = [
        "INSERT INTO app.items (name, created) SELECT 'late ' || n, now() FROM generate_series(1, 50) n",
        "INSERT INTO app.churn (id, kept) SELECT n, 'late' FROM generate_series(100001, 100100) n",
    ];
    primary.batch("shop", &inserts)?;
    let outcome = clone(&primary, "shop", "copy")?;
    assert!(outcome.relations > 250 && outcome.blocks > 1000, "{outcome:?}");

    let original = Original::of(&primary, "shop")?;
    assert!(
        original.maps.visibility_bits() > 100,
        "{} bits",
        original.maps.visibility_bits()
    );
    assert!(
        !original.heap_fetches.ends_with(" 0"),
        "a scan of changed pages has to fetch"
    );
    expect_whole(&primary, &original.fingerprint, "copy")?;
    original.expect_in(&primary, "copy", "on the primary")?;
    standby.write_out_as_standby(&primary)?;
    original.expect_in(&standby, "copy", "on the standby")?;
    expect_no_unowned_files(&standby)?;

    primary.crash_and_recover()?;
    original.expect_in(&primary, "copy", "on the primary after a crash")?;
    standby.crash_and_recover()?;
    original.expect_in(&standby, "copy", "on the standby after a crash")?;
    amcheck(&primary, "copy")?;
    for cluster in [&standby, &primary] {
        cluster.stop(StopMode::Fast)?;
        checksums(cluster)?;
    }
    Ok(())
}

#[test]
fn a_crash_right_after_the_clone_loses_nothing() -> Result<()> {
    let cluster = cluster()?;
    Source::new().build(&cluster, "shop")?;
    let original = Original::of(&cluster, "shop")?;
    clone(&cluster, "shop", "copy")?;
    // No checkpoint in between: all of the clone comes from the WAL.
    cluster.kill_postmaster()?;
    cluster.start()?;
    original.expect_in(&cluster, "copy", "after a kill")?;
    amcheck(&cluster, "copy")
}

/// S01: the clone's reading must not spoil the source's buffers of pg_class.
#[test]
fn changes_of_the_source_after_the_clone_survive_a_crash() -> Result<()> {
    let cluster = cluster()?;
    cluster.batch("postgres", &["CREATE DATABASE t"])?;
    clone(&cluster, "t", "c")?;
    cluster.batch(
        "t",
        &[
            "CREATE TABLE after_clone (i int)",
            "INSERT INTO after_clone VALUES (42)",
            "CHECKPOINT",
        ],
    )?;
    cluster.crash_and_recover()?;
    let value: i32 = cluster.session("t")?.query_value("SELECT i FROM after_clone")?;
    assert_eq!(value, 42);
    amcheck(&cluster, "t")
}

#[test]
fn clones_of_clones_are_independent() -> Result<()> {
    let cluster = cluster()?;
    Source::new().rows(200).build(&cluster, "shop")?;
    let original = Fingerprint::of(&cluster, "shop")?;
    clone(&cluster, "shop", "one")?;
    clone(&cluster, "one", "two")?;
    cluster.batch("one", &["DROP SCHEMA app CASCADE", "CREATE TABLE mine (a int)"])?;
    cluster.batch("shop", &["DELETE FROM app.churn"])?;
    cluster.batch("postgres", &["DROP DATABASE one"])?;
    expect_whole(&cluster, &original, "two")?;
    // A clone is a database like any other.
    cluster.batch(
        "two",
        &[
            "INSERT INTO app.items (name, created) VALUES ('x', now())",
            "VACUUM FULL",
            "REINDEX SCHEMA app",
        ],
    )?;
    amcheck(&cluster, "two")
}
