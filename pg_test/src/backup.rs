//! Base backups, standbys, restores to a point in time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cluster::{Cluster, Place};
use crate::initdb::copy_folder;
use crate::process::{give_to_server_user, run, wait_until};
use crate::{Error, Installation, Result, literal};

/// A base backup in a folder of its own, removed with it.
pub struct BaseBackup {
    installation: Installation,
    place: Option<Place>,
    data: PathBuf,
    heritage: Heritage,
}

type Heritage = (std::collections::BTreeMap<String, String>, crate::LogRules);

/// Where a restore ends.
#[derive(Clone, Debug)]
pub enum Target {
    /// At the end of the archived WAL.
    End,
    /// At this WAL position.
    Lsn(String),
    /// At this restore point (`pg_create_restore_point`).
    Name(String),
}

impl Cluster {
    /// Takes a base backup with `pg_basebackup` and these further options, for example `["-X", "fetch"]`.
    pub fn base_backup(&self, options: &[&str]) -> Result<BaseBackup> {
        let place = Place::new(self.folder().parent(), false)?;
        let data = place.data();
        let mut command = self.installation().command("pg_basebackup")?;
        self.point_at(&mut command);
        let taken = run(command
            .args(["-c", "fast", "--no-sync", "-D"])
            .arg(&data)
            .args(options));
        let backup = BaseBackup {
            installation: self.installation().clone(),
            place: Some(place),
            data,
            heritage: self.copy_heritage(),
        };
        taken.map(|_| backup)
    }

    /// A streaming standby, started and caught up.
    pub fn standby(&self) -> Result<Cluster> {
        self.standby_with(&[])
    }

    /// A streaming standby with some settings of its own.
    pub fn standby_with(&self, settings: &[(&str, &str)]) -> Result<Cluster> {
        let count: i32 = self
            .session("postgres")?
            .query_value("SELECT count(*)::int FROM pg_replication_slots")?;
        let slot = format!("standby_{count}");
        let standby = self
            .base_backup(&["-R", "-X", "stream", "-C", "-S", &slot])?
            .into_cluster()?;
        for (name, value) in settings {
            standby.set(name, value)?;
        }
        standby.start()?;
        standby.wait_for_replay(self)?;
        Ok(standby)
    }

    /// On a standby: waits until it has replayed all that its primary has written so far.
    pub fn wait_for_replay(&self, primary: &Cluster) -> Result<()> {
        // Its commit flushes all that was inserted before; an unflushed end would not be sent on an idle primary.
        let mut session = primary.session("postgres")?;
        session.batch("SELECT pg_logical_emit_message(true, 'pg_test', 'flush')")?;
        let end: String = session.query_value("SELECT pg_current_wal_flush_lsn()")?;
        let question = format!(
            "SELECT coalesce(pg_last_wal_replay_lsn() >= {}, false)",
            literal(&end)
        );
        wait_until("the standby replays", Duration::from_secs(120), || {
            // A conflict in replay may end our session: just ask again.
            Ok(self
                .session("postgres")
                .and_then(|mut s| s.query_value(&question))
                .unwrap_or(false))
        })
    }

    /// On a standby: has what the primary has written so far not only replayed but in the files.
    pub fn write_out_as_standby(&self, primary: &Cluster) -> Result<()> {
        primary.checkpoint()?;
        self.wait_for_replay(primary)?;
        self.checkpoint()
    }

    /// The folder that a cluster made with [`crate::ClusterBuilder::archiving`] archives its WAL to.
    #[must_use]
    pub fn archive_folder(&self) -> PathBuf {
        self.folder().join("archive")
    }

    /// Waits until all WAL so far is archived.
    pub fn archive_all(&self) -> Result<()> {
        let mut session = self.session("postgres")?;
        // An empty segment would not be switched away from.
        session.batch("SELECT pg_create_restore_point('archived')")?;
        let segment: String = session.query_value("SELECT pg_walfile_name(pg_switch_wal())")?;
        let question = format!(
            "SELECT coalesce(last_archived_wal >= {}, false) FROM pg_stat_archiver",
            literal(&segment)
        );
        wait_until("the WAL is archived", Duration::from_secs(60), || {
            Ok(session.query_value(&question)?)
        })
    }

    fn copy_heritage(&self) -> Heritage {
        let (mut settings, rules) = self.heritage();
        // A copy must not write into the archive that it is restored from.
        settings.remove("archive_mode");
        (settings, rules)
    }
}

impl BaseBackup {
    /// The backup's data folder.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The backup's manifest, for an incremental backup on top of it.
    #[must_use]
    pub fn manifest(&self) -> PathBuf {
        self.data.join("backup_manifest")
    }

    /// The folder that its own folder is in.
    fn parent(&self) -> Option<&Path> {
        self.data.parent()?.parent()
    }

    /// The backup as a cluster that is not started yet.
    pub fn into_cluster(mut self) -> Result<Cluster> {
        let place = self
            .place
            .take()
            .ok_or_else(|| Error::new("the backup is in use already"))?;
        let (settings, rules) = self.heritage.clone();
        Cluster::adopt(self.installation.clone(), place, settings, rules)
    }

    /// A second backup of the same content, to start one and keep one.
    pub fn copy(&self) -> Result<BaseBackup> {
        let place = Place::new(self.parent(), false)?;
        let data = place.data();
        copy_folder(&self.data, &data)?;
        Ok(Self {
            installation: self.installation.clone(),
            place: Some(place),
            data,
            heritage: self.heritage.clone(),
        })
    }

    /// Starts the backup as it is: recovery ends where the WAL in the backup ends.
    pub fn start(self) -> Result<Cluster> {
        let cluster = self.into_cluster()?;
        cluster.start()?;
        Ok(cluster)
    }

    /// Restores a copy of the backup from the archive, to the target, and waits until it takes writes.
    pub fn restore(&self, archive: &Path, target: &Target) -> Result<Cluster> {
        let place = Place::new(self.parent(), false)?;
        copy_folder(&self.data, &place.data())?;
        let signal = place.data().join("recovery.signal");
        fs::write(&signal, "")?;
        give_to_server_user(&signal)?;
        let (mut settings, rules) = self.heritage.clone();
        settings.insert(
            "restore_command".into(),
            format!("cp \"{}/%f\" \"%p\"", archive.display()),
        );
        settings.insert("recovery_target_action".into(), "promote".into());
        match target {
            Target::End => {}
            Target::Lsn(lsn) => drop(settings.insert("recovery_target_lsn".into(), lsn.clone())),
            Target::Name(name) => drop(settings.insert("recovery_target_name".into(), name.clone())),
        }
        let cluster = Cluster::adopt(self.installation.clone(), place, settings, rules)?;
        cluster.start()?;
        wait_until("the restore ends", Duration::from_secs(120), || {
            let asked = cluster
                .session("postgres")
                .and_then(|mut s| s.query_value("SELECT pg_is_in_recovery()"));
            Ok(matches!(asked, Ok(false)))
        })?;
        Ok(cluster)
    }

    /// Puts a full backup and the incremental ones after it together (17 and later).
    pub fn combine(chain: &[&BaseBackup]) -> Result<BaseBackup> {
        let last = chain.last().ok_or_else(|| Error::new("no backup to combine"))?;
        let place = Place::new(last.parent(), false)?;
        let data = place.data();
        let folders = chain.iter().map(|backup| &backup.data);
        run(last
            .installation
            .command("pg_combinebackup")?
            .args(folders)
            .arg("-o")
            .arg(&data))?;
        let installation = last.installation.clone();
        Ok(Self {
            installation,
            place: Some(place),
            data,
            heritage: last.heritage.clone(),
        })
    }
}

impl Drop for BaseBackup {
    fn drop(&mut self) {
        if let Some(place) = &self.place {
            place.remove();
        }
    }
}
