//! Goal: a clone is right on any server. Method: the whole check on servers with little shared memory, without
//! full-page writes, with small WAL segments, without checksums, with logical WAL, in another encoding.

use pg_test::checks::amcheck;
use pg_test::orphans::expect_no_unowned_files;
use pg_test::{ClusterBuilder, Fingerprint, ForkMaps, Result, Source};

use crate::support::{builder, clone, expect_whole, start};

/// Source, standby, clone, crash of both: everything equal.
fn clone_is_right(options: ClusterBuilder) -> Result<()> {
    let primary = start(options)?;
    Source::new()
        .rows(1500)
        .side_tablespace("side")
        .build(&primary, "shop")?;
    let standby = primary.standby()?;
    primary.batch(
        "shop",
        &["INSERT INTO app.churn (id, kept) SELECT n, 'late' FROM generate_series(100001, 100500) n"],
    )?;
    clone(&primary, "shop", "copy")?;
    let source = Fingerprint::of(&primary, "shop")?;
    let maps = ForkMaps::of(&primary, "shop")?;
    expect_whole(&primary, &source, "copy")?;
    maps.expect_equal(&ForkMaps::of(&primary, "copy")?)?;
    standby.write_out_as_standby(&primary)?;
    source
        .permanent()
        .expect_equal(&Fingerprint::of(&standby, "copy")?)?;
    maps.expect_equal(&ForkMaps::of(&standby, "copy")?)?;
    primary.crash_and_recover()?;
    source
        .permanent()
        .expect_equal(&Fingerprint::of(&primary, "copy")?.permanent())?;
    maps.expect_equal(&ForkMaps::of(&primary, "copy")?)?;
    expect_no_unowned_files(&standby)?;
    amcheck(&primary, "copy")
}

#[test]
fn with_the_smallest_shared_buffers() -> Result<()> {
    clone_is_right(
        builder()
            .set("shared_buffers", "128kB")
            .set("max_connections", "10")
            .set("fsync", "on"),
    )
}

#[test]
fn with_a_megabyte_of_shared_buffers_and_no_full_page_writes() -> Result<()> {
    clone_is_right(
        builder()
            .set("shared_buffers", "1MB")
            .set("full_page_writes", "off"),
    )
}

#[test]
fn with_small_wal_segments_and_logical_wal() -> Result<()> {
    let options = builder()
        .initdb_option("--wal-segsize=1")
        .set("wal_level", "logical")
        .set("min_wal_size", "2MB");
    clone_is_right(options.set("max_slot_wal_keep_size", "-1"))
}

#[test]
fn without_checksums_and_with_hint_bits_logged() -> Result<()> {
    clone_is_right(
        builder()
            .without_checksums()
            .set("wal_log_hints", "on")
            .set("wal_compression", "on"),
    )
}

#[test]
fn in_another_encoding_and_with_little_wal() -> Result<()> {
    // Checkpoints by WAL volume in the middle of everything.
    clone_is_right(
        builder()
            .locale("C", "LATIN1")
            .set("max_wal_size", "32MB")
            .set("checkpoint_timeout", "30s"),
    )
}
