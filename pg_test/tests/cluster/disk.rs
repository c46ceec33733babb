//! Goal: a disk that fills at any step of a clone costs the clone and nothing else: SQLSTATE 53100, nothing left, and
//! a server that starts again after a crash (rule 19). Method: the clone's tablespace, and then all databases,
//! on a small file system that is filled before the clone or while it stands at a fault point.

use std::fs;
use std::process::Command;

use pg_test::process::run;
use pg_test::{Cluster, DiskKind, Fingerprint, Result, SmallDisk, Source};

use crate::support::{
    Gate, builder, call, clone, cluster, expect_nothing_left, expect_whole, session_with_fault,
};

#[test]
fn a_full_tablespace_is_disk_full_and_nothing_is_left() -> Result<()> {
    for kind in [DiskKind::Tmpfs, DiskKind::Ext4] {
        let Some(disk) = SmallDisk::mount(kind, 60) else {
            continue;
        };
        let cluster = cluster()?;
        Source::new().build(&cluster, "shop")?;
        let source = Fingerprint::of(&cluster, "shop")?;
        let location = disk.path().display().to_string();
        cluster.batch(
            "postgres",
            &[&format!("CREATE TABLESPACE small LOCATION '{location}'")],
        )?;
        let mut refused = 0;
        // The clone takes some 12 MB.
        for free_kb in [0, 8, 64, 500, 2000, 5000, 9000] {
            disk.fill_leaving(free_kb)?;
            let mut session = cluster.session("postgres")?;
            let statement = call("shop", "copy", "tablespace => 'small'");
            let error = session.expect_error("53100", &statement);
            error.map_err(|e| e.context(format!("{kind:?} with {free_kb} kB")))?;
            refused += 1;
            drop(session);
            expect_nothing_left(&cluster, "copy")
                .map_err(|e| e.context(format!("{kind:?} with {free_kb} kB")))?;
            cluster.crash_and_recover()?;
            expect_nothing_left(&cluster, "copy")?;
        }
        assert_eq!(refused, 7);
        disk.make_room()?;
        cluster.batch("postgres", &[&call("shop", "copy", "tablespace => 'small'")])?;
        source
            .permanent()
            .expect_equal(&Fingerprint::of(&cluster, "copy")?.permanent())?;
        drop(cluster);
    }
    Ok(())
}

/// A cluster whose databases are on the small disk; WAL, lock files and log are elsewhere.
fn cluster_on(disk: &SmallDisk) -> Result<Cluster> {
    let cluster = builder().create()?;
    let (base, elsewhere) = (cluster.data().join("base"), disk.path().join("base"));
    run(Command::new("cp").arg("-a").arg(&base).arg(&elsewhere))?;
    fs::remove_dir_all(&base)?;
    std::os::unix::fs::symlink(&elsewhere, &base)?;
    cluster.start()?;
    cluster.batch("postgres", &["CREATE EXTENSION blockwise"])?;
    Ok(cluster)
}

#[test]
fn a_disk_that_fills_at_any_step_leaves_a_server_that_starts_after_a_crash() -> Result<()> {
    let Some(disk) = SmallDisk::mount(DiskKind::Ext4, 250) else {
        return Ok(());
    };
    let cluster = cluster_on(&disk)?;
    Source::new().without_zero_tail().build(&cluster, "shop")?;
    cluster.allow_log("No space left on device");
    let points = [
        "claim.before_insert",
        "claim.after_commit",
        "directory.after_mkdir",
        "directory.after_record",
        "relmap.after_copy",
        "copy.relation:10",
        "copy.relation:200",
        "copy.after_write:100",
        "copy.after_register:100",
        "copy.after_record:100",
        "copy.end",
        "publish.start",
        "publish.before_commit",
    ];
    let mut full = 0;
    for point in points {
        full += usize::from(fill_at(&cluster, &disk, point).map_err(|e| e.context(point))?);
    }
    // Towards the end there is nothing left to write but WAL, which has its own disk here.
    assert!(full >= 7, "the disk was full for {full} clones only");
    clone(&cluster, "shop", "copy")?;
    expect_whole(&cluster, &Fingerprint::of(&cluster, "shop")?, "copy")?;
    drop(cluster);
    Ok(())
}

/// Fills the disk while a clone stands at a point; true if it then failed for want of space.
fn fill_at(cluster: &Cluster, disk: &SmallDisk, point: &str) -> Result<bool> {
    let mut gate = Gate::close(cluster)?;
    let running = session_with_fault(cluster, &format!("{point}=wait"))?.spawn(call("shop", "copy", ""));
    gate.wait_for(&running)?;
    disk.fill_leaving(0)?;
    gate.open()?;
    let (mut session, result) = running.join()?;
    let full = match result {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.code, "53100", "{error}");
            // In this session: a new one could not write its catalog cache file now.
            let rows = session.rows("SELECT FROM pg_database WHERE datname = 'copy'")?;
            assert_eq!(rows.len(), 0, "a row is left");
            true
        }
    };
    drop(session);
    // The crash comes while the disk is as full as it was: replay needs what the clone had needed, and no more.
    cluster.crash()?;
    cluster.start()?;
    disk.make_room()?;
    if !full {
        Fingerprint::of(cluster, "shop")?.expect_equal(&Fingerprint::of(cluster, "copy")?)?;
        cluster.batch("postgres", &["DROP DATABASE copy"])?;
    }
    expect_nothing_left(cluster, "copy")?;
    Ok(full)
}
