//! Goal: what a clone writes to the WAL is ordinary, as small as asked for, and never promises what is not on disk.
//! Method: `pg_waldump` over the clone's WAL, each compression with a crash after it, `wal_level = minimal`, and the
//! system calls of the copying backend (S04).

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pg_test::process::{Signal, run, signal, wait_until};
use pg_test::{Cluster, Error, Fingerprint, ForkMaps, Result, Source};

use crate::support::{builder, call, clone, clone_with, cluster, expect_whole, session_with_fault, start};

/// The resource managers of core that a clone and its catalog rows need.
const ORDINARY: &[&str] = &[
    "XLOG",
    "Transaction",
    "Storage",
    "Database",
    "RelMap",
    "Standby",
    "Heap",
    "Heap2",
    "Btree",
    "Sequence",
];

fn waldump(cluster: &Cluster, from: &str, to: &str) -> Result<String> {
    let mut command = cluster.installation().command("pg_waldump")?;
    let output = run(command
        .arg("-p")
        .arg(cluster.data().join("pg_wal"))
        .args(["-s", from, "-e", to]))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn only_ordinary_records_are_written_and_32_images_go_into_one() -> Result<()> {
    let cluster = cluster()?;
    Source::new().build(&cluster, "shop")?;
    let from = cluster.lsn()?;
    let outcome = clone(&cluster, "shop", "copy")?;
    let to = cluster.lsn()?;
    let dump = waldump(&cluster, &from, &to)?;
    let manager = |line: &str| {
        line.strip_prefix("rmgr: ")
            .and_then(|rest| rest.split_whitespace().next())
            .map(str::to_owned)
    };
    for line in dump.lines() {
        let manager = manager(line).unwrap_or_default();
        assert!(ORDINARY.contains(&manager.as_str()), "{line}");
    }
    let folder = format!("/{}/", outcome.database);
    let images: Vec<&str> = dump
        .lines()
        .filter(|line| line.contains("desc: FPI") && line.contains(&folder))
        .collect();
    let blocks: usize = images.iter().map(|line| line.matches("blkref #").count()).sum();
    assert!(
        images.iter().any(|line| line.matches("blkref #").count() == 32),
        "no record of 32 images"
    );
    assert!(
        blocks > 1000 && images.len() * 3 < blocks,
        "{blocks} blocks in {} records",
        images.len()
    );
    // Unlogged relations: their init forks only.
    let scratch = cluster.relation_path("copy", "app.scratch")?;
    let number = scratch
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let of_scratch: Vec<&&str> = images
        .iter()
        .filter(|line| line.contains(&format!("{folder}{number} ")))
        .collect();
    assert!(
        of_scratch.iter().all(|line| line.contains("fork init")),
        "{of_scratch:?}"
    );
    // The order of the promises: row, its commit, directory, map, data.
    let place = |what: &str| {
        dump.lines()
            .position(|line| line.contains(what))
            .unwrap_or(usize::MAX)
    };
    assert!(
        place("COMMIT") < place("CREATE_WAL_LOG"),
        "the row is committed first"
    );
    assert!(place("CREATE_WAL_LOG") < place(images[0]));
    assert!(outcome.wal_bytes > 0 && (outcome.wal_bytes as usize) < dump.len() * 1000);
    Ok(())
}

#[test]
fn every_compression_survives_a_crash_and_leaves_the_session_s_setting_alone() -> Result<()> {
    let cluster = cluster()?;
    Source::new().build(&cluster, "shop")?;
    let source = Fingerprint::of(&cluster, "shop")?.permanent();
    let maps = ForkMaps::of(&cluster, "shop")?;
    let mut sizes = std::collections::BTreeMap::new();
    for method in ["off", "pglz", "lz4", "zstd", "auto"] {
        let mut session = cluster.session("postgres")?;
        session.batch("SET wal_compression = pglz")?;
        let built = method == "auto" || session.batch(&format!("SET wal_compression = {method}")).is_ok();
        session.batch("SET wal_compression = pglz")?;
        if !built {
            println!("SKIPPED wal_compression => '{method}': the server was built without it");
            session.expect_error(
                "0A000",
                &call("shop", "copy", &format!("wal_compression => '{method}'")),
            )?;
            continue;
        }
        let target = format!("copy_{method}");
        let outcome = clone_with(
            &mut session,
            "shop",
            &target,
            &format!("wal_compression => '{method}'"),
        )?;
        assert_eq!(
            session.query_value::<String>("SHOW wal_compression")?,
            "pglz",
            "after {method}"
        );
        sizes.insert(method, outcome.wal_bytes);
        drop(session);
        cluster.crash_and_recover()?;
        source.expect_equal(&Fingerprint::of(&cluster, &target)?.permanent())?;
        maps.expect_equal(&ForkMaps::of(&cluster, &target)?)?;
    }
    for method in ["pglz", "auto"] {
        assert!(sizes[method] * 10 < sizes["off"] * 7, "{sizes:?}");
    }
    // After an error the setting is the session's own too.
    let mut session = session_with_fault(&cluster, "copy.relation:20=error")?;
    session.batch("SET wal_compression = off")?;
    session.expect_error("XX000", &call("shop", "copy", "wal_compression => 'pglz'"))?;
    assert_eq!(session.query_value::<String>("SHOW wal_compression")?, "off");
    Ok(())
}

fn minimal() -> Result<Cluster> {
    start(
        builder()
            .set("fsync", "on")
            .set("wal_level", "minimal")
            .set("max_wal_senders", "0"),
    )
}

#[test]
fn at_wal_level_minimal_a_crash_right_after_the_clone_loses_nothing() -> Result<()> {
    let cluster = minimal()?;
    Source::new().side_tablespace("side").build(&cluster, "shop")?;
    let source = Fingerprint::of(&cluster, "shop")?;
    let maps = ForkMaps::of(&cluster, "shop")?;
    clone(&cluster, "shop", "copy")?;
    expect_whole(&cluster, &source, "copy")?;
    // S06: what is made in the clone after its publication, skipping the WAL, is not lost by replay either.
    let fresh =
        "BEGIN; CREATE TABLE fresh AS SELECT generate_series(1, 20000) a; CREATE INDEX ON fresh (a); COMMIT";
    cluster.batch("copy", &[fresh])?;
    cluster.kill_postmaster()?;
    cluster.start()?;
    let mut session = cluster.session("copy")?;
    session.batch("SET enable_seqscan = off")?;
    assert_eq!(
        session.query_value::<i64>("SELECT count(*) FROM fresh WHERE a > 0")?,
        20000
    );
    session.batch("DROP TABLE fresh")?;
    drop(session);
    cluster.batch("copy", &["VACUUM"])?;
    cluster.batch("shop", &["VACUUM"])?;
    maps.expect_equal(&ForkMaps::of(&cluster, "shop")?)?;
    let of_relations = "SELECT count(*) FROM app.items";
    assert_eq!(cluster.session("copy")?.query_value::<i64>(of_relations)?, 2000);
    pg_test::checks::amcheck(&cluster, "copy")
}

#[test]
fn at_wal_level_minimal_crashes_and_checkpoints_between_steps_lose_nothing() -> Result<()> {
    let cluster = minimal()?;
    Source::new().rows(300).build(&cluster, "shop")?;
    let source = Fingerprint::of(&cluster, "shop")?.permanent();
    for (number, point) in [
        "directory.after_record",
        "copy.after_write:99",
        "copy.after_record:99",
        "copy.end",
    ]
    .iter()
    .enumerate()
    {
        let target = format!("c_{number}");
        let (gate, running) = crate::support::held_clone(&cluster, point, "shop", &target)?;
        cluster.checkpoint()?;
        gate.open()?;
        running.join_ok()?;
        cluster.kill_postmaster()?;
        cluster.start()?;
        source
            .expect_equal(&Fingerprint::of(&cluster, &target)?.permanent())
            .map_err(|e| e.context(point))?;
    }
    Ok(())
}

/// S04: version file, relation map and directories are synced before the record that promises them can be flushed.
#[test]
fn files_are_synced_before_the_wal_that_promises_them() -> Result<()> {
    // fsync is what is watched; the disk of the temporary folder is the honest one.
    let cluster = start(
        builder()
            .under(std::env::temp_dir())
            .set("fsync", "on")
            .set("wal_sync_method", "fdatasync"),
    )?;
    cluster.batch("postgres", &["CREATE DATABASE src"])?;
    let session = cluster.session("postgres")?;
    let trace_file = cluster.folder().join("trace");
    let Some(mut tracer) = trace(session.pid(), &trace_file)? else {
        return Ok(());
    };
    let mut session = session;
    let outcome = clone_with(&mut session, "src", "copy", "");
    drop(session);
    tracer.wait()?;
    let outcome = outcome?;
    let trace = std::fs::read_to_string(&trace_file)?;
    let folder = format!("/base/{}", outcome.database);
    let synced =
        |path: &str| line_of(&trace, "fsync(", path).ok_or_else(|| Error::new(format!("no fsync of {path}")));
    let flushes: Vec<usize> = lines_of(&trace, "fdatasync(", "/pg_wal/");
    let last_flush = *flushes
        .last()
        .ok_or_else(|| Error::new("the WAL was never flushed"))?;
    let made = line_of(&trace, "mkdir(", &format!("base/{}\"", outcome.database))
        .ok_or_else(|| Error::new("no mkdir"))?;
    let claimed = flushes.iter().any(|&flush| flush < made);
    assert!(claimed, "the row's commit is flushed before there is a directory");
    for path in [
        format!("{folder}/PG_VERSION>"),
        format!("{folder}>"),
        "/base>".into(),
        format!("{folder}/pg_filenode.map"),
    ] {
        let line = synced(&path)?;
        assert!(
            made < line && line < last_flush,
            "{path}: line {line} of {made}..{last_flush}"
        );
    }
    // Nothing of the WAL may go out between the directory and its syncs.
    let durable = synced(&format!("{folder}/PG_VERSION>"))?
        .max(synced(&format!("{folder}>"))?)
        .max(synced("/base>")?);
    assert!(
        !flushes.iter().any(|&flush| made < flush && flush < durable),
        "a flush in between"
    );
    Ok(())
}

/// Traces one process; `None`, with the reason printed, where that is not possible.
fn trace(pid: i32, to: &std::path::Path) -> Result<Option<Child>> {
    let calls = "trace=mkdir,openat,rename,fsync,fdatasync,sync_file_range";
    let started = Command::new("strace")
        .args(["-f", "-y", "-e", calls, "-p", &pid.to_string(), "-o"])
        .arg(to)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut tracer) = started else {
        println!("SKIPPED: strace is not installed");
        return Ok(None);
    };
    let attached = wait_until("strace attaches", Duration::from_secs(10), || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        Ok(status
            .lines()
            .any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0")))
    });
    if attached.is_err() {
        println!("SKIPPED: strace may not attach here");
        let id = i32::try_from(tracer.id()).map_err(|e| Error::new(e.to_string()))?;
        let _ = signal(id, Signal::KILL);
        tracer.wait()?;
        return Ok(None);
    }
    Ok(Some(tracer))
}

fn lines_of(trace: &str, call: &str, path: &str) -> Vec<usize> {
    let found = trace
        .lines()
        .enumerate()
        .filter(|(_, line)| line.contains(call) && line.contains(path));
    found.map(|(number, _)| number).collect()
}

fn line_of(trace: &str, call: &str, path: &str) -> Option<usize> {
    lines_of(trace, call, path).first().copied()
}
