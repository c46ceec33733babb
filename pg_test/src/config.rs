//! What a cluster is made of: `initdb` options, settings, where it lives, what its log may say.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cluster::{Cluster, Place};
use crate::initdb::make_data_folder;
use crate::process::give_to_server_user;
use crate::{Installation, LogRules, Result};

/// The file of our own settings, included last by `postgresql.conf`.
const OWN_SETTINGS: &str = "harness.conf";

/// A file system in memory, on Linux.
pub(crate) const MEMORY_FOLDER: &str = "/dev/shm";

/// Collects the options of a new cluster; [`ClusterBuilder::start`] makes and starts it.
#[derive(Clone, Debug)]
pub struct ClusterBuilder {
    installation: Installation,
    initdb: Vec<String>,
    checksums: bool,
    locale: String,
    encoding: String,
    settings: BTreeMap<String, String>,
    under: Option<PathBuf>,
    keep: bool,
    archiving: bool,
    rules: LogRules,
}

impl ClusterBuilder {
    /// A cluster with checksums, locale C.UTF-8 and the server's default settings.
    #[must_use]
    pub fn new(installation: &Installation) -> Self {
        Self {
            installation: installation.clone(),
            initdb: Vec::new(),
            checksums: true,
            locale: "C.UTF-8".into(),
            encoding: "UTF8".into(),
            settings: BTreeMap::new(),
            under: None,
            keep: std::env::var_os("BLOCKWISE_KEEP").is_some(),
            archiving: false,
            rules: LogRules::default(),
        }
    }

    /// Settings that tests want: no autovacuum on its own account, tablespaces in the data folder, room for prepared
    /// transactions, small memory, and a limit to every statement so that nothing hangs for ever. Without fsync: a
    /// crash of the server alone loses nothing that was written. A test in which sync requests matter (one for a file
    /// that is gone is a PANIC) sets it on again.
    #[must_use]
    pub fn for_tests(self) -> Self {
        let folder = fast_folder();
        self.under(folder)
            .set("autovacuum", "off")
            .set("fsync", "off")
            .set("allow_in_place_tablespaces", "on")
            .set("max_prepared_transactions", "10")
            .set("shared_buffers", "32MB")
            .set("max_connections", "40")
            .set("checkpoint_timeout", "1h")
            .set("max_wal_size", "4GB")
            .set("statement_timeout", "180s")
            .set("wal_retrieve_retry_interval", "100ms")
    }

    /// A setting for `postgresql.conf`.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<String>) -> Self {
        self.settings.insert(name.into(), value.into());
        self
    }

    /// Locale (by default C.UTF-8) and encoding (by default UTF8) of the cluster.
    #[must_use]
    pub fn locale(mut self, locale: &str, encoding: &str) -> Self {
        self.locale = locale.into();
        self.encoding = encoding.into();
        self
    }

    /// A cluster without data checksums.
    #[must_use]
    pub fn without_checksums(mut self) -> Self {
        self.checksums = false;
        self
    }

    /// A further option for `initdb`, for example `--wal-segsize=1`.
    #[must_use]
    pub fn initdb_option(mut self, option: impl Into<String>) -> Self {
        self.initdb.push(option.into());
        self
    }

    /// The folder to make the cluster's folder in, instead of the temporary folder.
    #[must_use]
    pub fn under(mut self, folder: impl Into<PathBuf>) -> Self {
        self.under = Some(folder.into());
        self
    }

    /// Archive the WAL to a folder of the cluster's own.
    #[must_use]
    pub fn archiving(mut self) -> Self {
        self.archiving = true;
        self
    }

    /// Leave the server running and its folder in place when the [`Cluster`] is dropped.
    #[must_use]
    pub fn keep(mut self, keep: bool) -> Self {
        self.keep = keep;
        self
    }

    /// Lines of the server log that match this regular expression are no complaint.
    #[must_use]
    pub fn allow_log(mut self, pattern: &str) -> Self {
        self.rules.allow(pattern);
        self
    }

    /// Makes the data folder without starting the server.
    pub fn create(mut self) -> Result<Cluster> {
        let place = Place::new(self.under.as_deref(), self.keep)?;
        if self.archiving {
            let folder = place.archive();
            fs::create_dir(&folder)?;
            give_to_server_user(&folder)?;
            let command = format!("cp \"%p\" \"{}/%f\"", folder.display());
            self = self.set("archive_mode", "on").set("archive_command", command);
        }
        make_data_folder(&self.installation, &self.initdb_options(), &place.data())?;
        let conf = place.data().join("postgresql.conf");
        let text = fs::read_to_string(&conf)?;
        fs::write(&conf, format!("{text}\ninclude '{OWN_SETTINGS}'\n"))?;
        Cluster::adopt(self.installation, place, self.settings, self.rules)
    }

    /// Makes the cluster and starts it.
    pub fn start(self) -> Result<Cluster> {
        let cluster = self.create()?;
        cluster.start()?;
        Ok(cluster)
    }

    fn initdb_options(&self) -> Vec<String> {
        let mut options: Vec<String> = ["-A", "trust", "-N", "-U", "postgres"].map(Into::into).to_vec();
        // From 18 on checksums are the default.
        match (self.checksums, self.installation.major() >= 18) {
            (true, _) => options.push("--data-checksums".into()),
            (false, true) => options.push("--no-data-checksums".into()),
            (false, false) => {}
        }
        options.push(format!("--locale={}", self.locale));
        options.push(format!("--encoding={}", self.encoding));
        options.extend(self.initdb.iter().cloned());
        options
    }
}

/// The folder for tests: the temporary folder if one was asked for, else memory if it has room for a few clusters.
fn fast_folder() -> PathBuf {
    const ROOM: u64 = 6 << 30;
    let memory = Path::new(MEMORY_FOLDER);
    let has_room = rustix::fs::statvfs(memory).is_ok_and(|disk| disk.f_bavail * disk.f_frsize >= ROOM);
    if std::env::var_os("TMPDIR").is_none() && has_room {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}

/// Writes our settings file into a data folder: what every server of ours needs, then `settings`.
pub(crate) fn write_settings(data: &Path, sockets: &Path, settings: &BTreeMap<String, String>) -> Result<()> {
    let sockets = sockets.display().to_string();
    let needed = [
        ("listen_addresses", ""),
        ("unix_socket_directories", sockets.as_str()),
        ("logging_collector", "off"),
        ("log_line_prefix", "%m [%p] %b %e: "),
        ("log_timezone", "UTC"),
        ("lc_messages", "C"),
    ];
    let mut text = String::from("# Written by the test harness.\n");
    let own = settings
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in needed.into_iter().chain(own) {
        text.push_str(&format!("{name} = '{}'\n", value.replace('\'', "''")));
    }
    fs::write(data.join(OWN_SETTINGS), text)?;
    give_to_server_user(&data.join(OWN_SETTINGS))
}
