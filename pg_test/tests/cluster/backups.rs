//! Goal: a base backup, a restore to a point in time, an incremental backup and a standby know a clone as well as
//! the primary does. Method: backups at the narrow moments of a clone (held there by a fault point) and while clones
//! are made in a loop; the restored clone is compared with the source.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use pg_test::backup::{BaseBackup, Target};
use pg_test::checks::amcheck;
use pg_test::orphans::expect_no_unowned_files;
use pg_test::{Cluster, Fingerprint, ForkMaps, Result, Source};

use crate::support::{builder, call, clone, cluster, connection_limit, drop_unfinished, held_clone, start};

/// S05: a base backup that falls between "made" and "logged". Restored to the end of the WAL, once with the clone
/// finished after the backup, once with it unfinished.
#[test]
fn a_backup_between_two_steps_restores_a_whole_clone_or_a_row_to_drop() -> Result<()> {
    let primary = start(builder().archiving())?;
    Source::new().rows(200).build(&primary, "shop")?;
    let source = Fingerprint::of(&primary, "shop")?.permanent();
    let maps = ForkMaps::of(&primary, "shop")?;
    let points = [
        "claim.after_commit",
        "directory.after_mkdir",
        "directory.after_record",
        "relmap.after_copy",
        "copy.after_write:120",
        "copy.after_register:120",
        "copy.end",
        "publish.before_commit",
    ];
    for (number, point) in points.iter().enumerate() {
        let target = format!("c_{number}");
        let (gate, running) = held_clone(&primary, point, "shop", &target)?;
        let backup = primary.base_backup(&["-X", "fetch"])?;
        expect_unfinished_when_restored(&backup, &target).map_err(|e| e.context(point))?;
        gate.open()?;
        running.join_ok()?;
        primary.archive_all()?;
        let restored = backup.restore(&primary.archive_folder(), &Target::End)?;
        source
            .expect_equal(&Fingerprint::of(&restored, &target)?.permanent())
            .map_err(|e| e.context(point))?;
        maps.expect_equal(&ForkMaps::of(&restored, &target)?)
            .map_err(|e| e.context(point))?;
        expect_no_unowned_files(&restored).map_err(|e| e.context(point))?;
    }
    Ok(())
}

/// Started as it is, without the WAL that followed, the backup holds the row of an unfinished clone.
fn expect_unfinished_when_restored(backup: &BaseBackup, target: &str) -> Result<()> {
    let alone = backup.copy()?.start()?;
    expect_no_unowned_files(&alone)?;
    drop_unfinished(&alone, target)
}

/// What a restore has to find: a point, the clones that are there then, and what they look like.
struct Moment {
    lsn: String,
    newest: String,
    fingerprint: Fingerprint,
    maps: ForkMaps,
}

#[test]
fn a_backup_taken_while_clones_are_made_restores_to_a_point_after_each() -> Result<()> {
    // A backup that reads a file while it grows cannot verify that file; it says so and copies it all the same.
    let primary = start(
        builder()
            .archiving()
            .allow_log("could not verify checksum in file .* read buffer size"),
    )?;
    Source::new().rows(3000).build(&primary, "shop")?;
    let stop = AtomicBool::new(false);
    let mut moments = Vec::new();
    let backup = scope(|threads| -> Result<BaseBackup> {
        threads.spawn(|| other_clones(&primary, &stop));
        // Slow enough that some clones are made meanwhile.
        let backup = threads.spawn(|| primary.base_backup(&["-X", "none", "--max-rate=24M"]));
        let made = (0..5).try_for_each(|number| {
            moments.push(next_moment(&primary, number)?);
            sleep(Duration::from_millis(150));
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        let backup = backup
            .join()
            .map_err(|_| pg_test::Error::new("the backup's thread panicked"))?;
        made.and(backup)
    })?;
    // One more after the backup, for the backup's end must lie before a target.
    for number in 5..7 {
        moments.push(next_moment(&primary, number)?);
    }
    let label = std::fs::read_to_string(backup.data().join("backup_label"))?;
    primary.archive_all()?;
    let mut restores = 0;
    for moment in &moments {
        if !lies_after_backup(&primary, &backup, &moment.lsn)? {
            continue;
        }
        restores += 1;
        let restored = backup.restore(&primary.archive_folder(), &Target::Lsn(moment.lsn.clone()))?;
        moment
            .expect_in(&restored)
            .map_err(|e| e.context(format!("{}\n{label}", moment.newest)))?;
    }
    assert!(restores >= 2, "{restores} restores");
    Ok(())
}

/// Clones that come and go, so that the backup meets directories in all states.
fn other_clones(cluster: &Cluster, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut session) = cluster.session("postgres") else {
            return;
        };
        // Two clones of one source at a time may be refused nothing; errors would show in the log.
        let _ = session.batch(&call("template1", "passing", ""));
        let _ = session.batch("DROP DATABASE IF EXISTS passing");
    }
}

/// Changes the source, clones it, and notes what the clone has to look like from here on.
fn next_moment(primary: &Cluster, number: u32) -> Result<Moment> {
    let newest = format!("c_{number}");
    primary.batch(
        "shop",
        &[&format!(
            "INSERT INTO app.items (name, created) VALUES ('{newest}', now())"
        )],
    )?;
    clone(primary, "shop", &newest)?;
    let lsn = primary.lsn()?;
    let fingerprint = Fingerprint::of(primary, "shop")?.permanent();
    Ok(Moment {
        lsn,
        newest,
        fingerprint,
        maps: ForkMaps::of(primary, "shop")?,
    })
}

/// Whether a restore of this backup can end there: not before the backup's own end.
fn lies_after_backup(primary: &Cluster, backup: &BaseBackup, lsn: &str) -> Result<bool> {
    let manifest = std::fs::read_to_string(backup.manifest())?;
    let end = manifest
        .split("\"End-LSN\": \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap_or_default();
    Ok(primary
        .session("postgres")?
        .query_value(&format!("SELECT '{lsn}'::pg_lsn > '{end}'::pg_lsn"))?)
}

impl Moment {
    fn expect_in(&self, restored: &Cluster) -> Result<()> {
        self.fingerprint
            .expect_equal(&Fingerprint::of(restored, &self.newest)?.permanent())?;
        self.maps.expect_equal(&ForkMaps::of(restored, &self.newest)?)?;
        amcheck(restored, &self.newest)?;
        if connection_limit(restored, "passing")? == Some(-2) {
            drop_unfinished(restored, "passing")?;
        }
        expect_no_unowned_files(restored)
    }
}

/// S10: an incremental backup after the clone. The summarizer has to see the clone's blocks.
#[test]
fn an_incremental_backup_after_the_clone_holds_it() -> Result<()> {
    let options = builder();
    if pg_test::Installation::from_env().major() < 17 {
        println!("SKIPPED: incremental backups begin with 17");
        return Ok(());
    }
    let primary = start(options.set("summarize_wal", "on"))?;
    Source::new().build(&primary, "shop")?;
    clone(&primary, "shop", "early")?;
    let full = primary.base_backup(&[])?;
    primary.batch(
        "early",
        &["INSERT INTO app.items (name, created) VALUES ('later', now())"],
    )?;
    let early = Fingerprint::of(&primary, "early")?;
    let source = Fingerprint::of(&primary, "shop")?;
    clone(&primary, "shop", "late")?;
    let manifest = full.manifest().display().to_string();
    let incremental = primary.base_backup(&["-i", &manifest])?;
    let restored = BaseBackup::combine(&[&full, &incremental])?.start()?;
    // Unlogged relations are empty after any restore.
    early
        .permanent()
        .expect_equal(&Fingerprint::of(&restored, "early")?.permanent())?;
    source
        .permanent()
        .expect_equal(&Fingerprint::of(&restored, "late")?.permanent())?;
    amcheck(&restored, "late")?;
    expect_no_unowned_files(&restored)
}

/// S08: the standby restarts from before the clone, when its tablespace is legitimately gone.
#[test]
fn a_standby_replays_a_clone_whose_tablespace_is_gone() -> Result<()> {
    let primary = cluster()?;
    Source::new()
        .rows(100)
        .side_tablespace("side")
        .build(&primary, "shop")?;
    let standby = primary.standby()?;
    primary.batch("postgres", &["CREATE TABLESPACE ts3 LOCATION ''"])?;
    let call = call("shop", "d3", "tablespace => 'ts3'");
    primary.batch("postgres", &[&call, "DROP DATABASE d3", "DROP TABLESPACE ts3"])?;
    standby.wait_for_replay(&primary)?;
    standby.crash_and_recover()?;
    standby.wait_for_replay(&primary)?;
    expect_no_unowned_files(&standby)?;
    primary.crash_and_recover()?;
    expect_no_unowned_files(&primary)?;
    clone(&primary, "shop", "again")?;
    standby.wait_for_replay(&primary)?;
    let source = Fingerprint::of(&primary, "shop")?.permanent();
    source.expect_equal(&Fingerprint::of(&standby, "again")?)
}

/// A standby that was away for the whole clone, and one that is promoted in the middle of it.
#[test]
fn a_standby_that_is_promoted_during_a_clone_has_a_row_to_drop() -> Result<()> {
    let primary = cluster()?;
    Source::new().rows(100).build(&primary, "shop")?;
    let standby = primary.standby()?;
    let (gate, running) = held_clone(&primary, "copy.after_record:99", "shop", "copy")?;
    standby.wait_for_replay(&primary)?;
    standby.promote()?;
    drop_unfinished(&standby, "copy")?;
    gate.open()?;
    running.join_ok()?;
    clone(&standby, "shop", "copy").map(|_| ())
}
