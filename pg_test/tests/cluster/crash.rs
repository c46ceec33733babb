//! Goal: checkpoints and crashes at any moment of a clone never yield a wrong clone (rule 7). Method: clones and
//! checkpoints in loops of their own while the server crashes at random moments; after each recovery every clone that
//! is there is compared with the source, and every unfinished one is dropped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use pg_test::checks::{amcheck, checksums};
use pg_test::orphans::expect_no_unowned_files;
use pg_test::{Cluster, Fingerprint, ForkMaps, Result, Source, StopMode};

use crate::support::{builder, call, connection_limit, held_clone, session_with_fault, start};

/// What every clone has to equal after a crash.
struct Original {
    fingerprint: Fingerprint,
    maps: ForkMaps,
}

/// Clones and checkpoints until told to stop; errors are what crashes do to sessions.
fn clone_in_a_loop(cluster: &Cluster, prefix: &str, stop: &AtomicBool) {
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let Ok(mut session) = cluster.session("postgres") else {
            return;
        };
        let _ = session.batch(&call("shop", &format!("{prefix}_{number}"), ""));
    }
}

fn checkpoint_in_a_loop(cluster: &Cluster, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut session) = cluster.session("postgres") else {
            return;
        };
        while !stop.load(Ordering::Relaxed) && session.batch("CHECKPOINT").is_ok() {
            sleep(Duration::from_millis(10));
        }
    }
}

/// Looks at every clone after a crash, then drops it. Tells how many whole and how many unfinished there were.
fn expect_clones_right(cluster: &Cluster, original: &Original) -> Result<(usize, usize)> {
    let names = cluster
        .session("postgres")?
        .rows("SELECT datname FROM pg_database WHERE datname LIKE 'c%\\_%'")?;
    let (mut whole, mut unfinished) = (0, 0);
    expect_no_unowned_files(cluster)?;
    for name in names.into_iter().flatten().flatten() {
        if connection_limit(cluster, &name)? == Some(-2) {
            unfinished += 1;
        } else {
            whole += 1;
            original
                .fingerprint
                .expect_equal(&Fingerprint::of(cluster, &name)?.permanent())?;
            original.maps.expect_equal(&ForkMaps::of(cluster, &name)?)?;
        }
        cluster
            .session("postgres")?
            .batch(&format!("DROP DATABASE {name}"))?;
    }
    expect_no_unowned_files(cluster)?;
    Ok((whole, unfinished))
}

#[test]
fn checkpoints_and_crashes_during_clones_never_yield_a_wrong_clone() -> Result<()> {
    let cluster = start(builder().set("fsync", "on").set("wal_writer_delay", "10ms"))?;
    Source::new().rows(4000).build(&cluster, "shop")?;
    let fingerprint = Fingerprint::of(&cluster, "shop")?.permanent();
    let original = Original {
        fingerprint,
        maps: ForkMaps::of(&cluster, "shop")?,
    };
    let (mut whole, mut unfinished) = (0, 0);
    for round in 0..8 {
        let stop = AtomicBool::new(false);
        scope(|threads| -> Result<()> {
            threads.spawn(|| clone_in_a_loop(&cluster, "ca", &stop));
            threads.spawn(|| clone_in_a_loop(&cluster, "cb", &stop));
            threads.spawn(|| checkpoint_in_a_loop(&cluster, &stop));
            // Not in step with anything.
            sleep(Duration::from_millis(300 + 377 * round % 900));
            let crashed = if round % 2 == 0 {
                cluster.crash()
            } else {
                cluster.kill_postmaster()
            };
            stop.store(true, Ordering::Relaxed);
            crashed
        })?;
        cluster.start()?;
        let (w, u) = expect_clones_right(&cluster, &original)?;
        whole += w;
        unfinished += u;
    }
    println!("{whole} whole clones and {unfinished} unfinished ones over 8 crashes");
    assert!(
        whole > 0 && unfinished > 0,
        "{whole} whole, {unfinished} unfinished: the crashes came at no good time"
    );
    cluster.stop(StopMode::Fast)?;
    checksums(&cluster)?;
    cluster.start()?;
    amcheck(&cluster, "shop")
}

/// The narrow moments of rule 7: a checkpoint that begins and ends between the steps of a batch, then the rest of the
/// clone, then a crash.
#[test]
fn a_checkpoint_between_any_two_steps_and_a_later_crash_lose_nothing() -> Result<()> {
    let cluster = start(builder().set("fsync", "on"))?;
    Source::new().rows(400).build(&cluster, "shop")?;
    let fingerprint = Fingerprint::of(&cluster, "shop")?.permanent();
    let original = Original {
        fingerprint,
        maps: ForkMaps::of(&cluster, "shop")?,
    };
    let points = [
        "directory.after_mkdir",
        "directory.after_record",
        "relmap.after_copy",
        "copy.after_write:150",
        "copy.after_register:150",
        "copy.after_record:150",
        "copy.end",
        "publish.start",
        "publish.before_commit",
    ];
    for (number, point) in points.iter().enumerate() {
        let target = format!("c_{number}");
        let (gate, running) = held_clone(&cluster, point, "shop", &target)?;
        cluster.checkpoint()?;
        gate.open()?;
        running.join_ok()?;
        cluster.crash_and_recover()?;
        let (whole, unfinished) = expect_clones_right(&cluster, &original).map_err(|e| e.context(point))?;
        assert_eq!((whole, unfinished), (1, 0), "{point}");
    }
    Ok(())
}

/// The same moments, but the crash comes while the clone stands there: the row owns what there is, also when the
/// directory is made and its record not yet written, and the other way round.
#[test]
fn a_crash_between_any_two_steps_leaves_a_row_that_owns_its_files() -> Result<()> {
    let cluster = start(builder().set("fsync", "on"))?;
    Source::new().rows(200).build(&cluster, "shop")?;
    let fingerprint = Fingerprint::of(&cluster, "shop")?.permanent();
    let original = Original {
        fingerprint,
        maps: ForkMaps::of(&cluster, "shop")?,
    };
    for with_checkpoint in [true, false] {
        for point in [
            "claim.after_commit",
            "directory.after_mkdir",
            "directory.after_record",
            "copy.after_write:99",
        ] {
            let (gate, running) = held_clone(&cluster, point, "shop", "c_x")?;
            if with_checkpoint {
                cluster.checkpoint()?;
            }
            cluster.crash()?;
            assert!(running.join()?.1.is_err_and(|e| e.lost_connection()), "{point}");
            drop(gate);
            cluster.start()?;
            let found = expect_clones_right(&cluster, &original).map_err(|e| e.context(point))?;
            assert_eq!(found, (0, 1), "{point}");
        }
    }
    Ok(())
}

/// S13: a backend that is killed while it copies leaves nothing that nobody owns; nor does one that is cancelled or
/// terminated at moments that no fault point names.
#[test]
fn cancels_and_terminations_at_random_moments_leave_nothing() -> Result<()> {
    let cluster = start(builder().set("fsync", "on"))?;
    Source::new().rows(8000).build(&cluster, "shop")?;
    let fingerprint = Fingerprint::of(&cluster, "shop")?;
    let mut stopped = 0;
    for round in 0..24_u32 {
        let running = session_with_fault(&cluster, "")?.spawn(call("shop", "c_r", ""));
        sleep(Duration::from_millis(u64::from(5 + round * 13 % 280)));
        let mut other = cluster.session("postgres")?;
        let function = if round % 2 == 0 {
            "pg_cancel_backend"
        } else {
            "pg_terminate_backend"
        };
        let asked = std::time::Instant::now();
        other.batch(&format!("SELECT {function}({})", running.pid()))?;
        let (session, result) = running.join()?;
        assert!(
            asked.elapsed() < Duration::from_secs(1),
            "{function} was answered after {:?}",
            asked.elapsed()
        );
        drop(session);
        match result {
            Ok(_) => crate::support::expect_whole(&cluster, &fingerprint, "c_r")?,
            Err(error) => {
                assert!(error.code == "57014" || error.lost_connection(), "{error}");
                stopped += 1;
            }
        }
        // Terminated just after the publication: a whole clone, although the session heard nothing of it.
        if connection_limit(&cluster, "c_r")?.is_some() {
            crate::support::expect_whole(&cluster, &fingerprint, "c_r")?;
            cluster.batch("postgres", &["DROP DATABASE c_r"])?;
        }
        crate::support::expect_nothing_left(&cluster, "c_r")?;
    }
    assert!(stopped > 5, "only {stopped} of 24 clones were stopped");
    Ok(())
}
