//! The server programs of one PostgreSQL version.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{run, server_command};
use crate::{Error, Result};

/// The environment variable that names the `pg_config` to test with.
const PG_CONFIG_VARIABLE: &str = "BLOCKWISE_PG_CONFIG";

/// One installed PostgreSQL: where its programs and libraries are, and what it was built with.
#[derive(Clone, Debug)]
pub struct Installation {
    pg_config: PathBuf,
    bindir: PathBuf,
    pkglibdir: PathBuf,
    sharedir: PathBuf,
    version: String,
    major: u32,
    configure: String,
}

impl Installation {
    /// The installation that `BLOCKWISE_PG_CONFIG` names.
    ///
    /// # Panics
    /// When the variable is missing or wrong: a test cannot go on without a server.
    #[must_use]
    pub fn from_env() -> Self {
        let Some(path) = std::env::var_os(PG_CONFIG_VARIABLE) else {
            panic!(
                "{PG_CONFIG_VARIABLE} is not set: it names the pg_config of the server to test with. \
                 Run the tests by `cargo xtask test`, which installs the extension and sets it."
            );
        };
        match Self::new(&path) {
            Ok(installation) => installation,
            Err(error) => panic!("{PG_CONFIG_VARIABLE}={}: {error}", path.display()),
        }
    }

    /// The installation that this `pg_config` describes.
    pub fn new(pg_config: impl AsRef<Path>) -> Result<Self> {
        let pg_config = pg_config.as_ref();
        let ask = |option: &str| -> Result<String> {
            let output = run(Command::new(pg_config).arg(option))?;
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let version = ask("--version")?;
        let major = version
            .split(|c: char| !c.is_ascii_digit())
            .find_map(|digits| digits.parse().ok())
            .ok_or_else(|| Error::new(format!("cannot read a version from {version:?}")))?;
        Ok(Self {
            pg_config: pg_config.to_owned(),
            bindir: ask("--bindir")?.into(),
            pkglibdir: ask("--pkglibdir")?.into(),
            sharedir: ask("--sharedir")?.into(),
            configure: ask("--configure")?,
            version,
            major,
        })
    }

    /// The `pg_config` it was made from.
    #[must_use]
    pub fn pg_config(&self) -> &Path {
        &self.pg_config
    }

    /// The folder of the server programs.
    #[must_use]
    pub fn bindir(&self) -> &Path {
        &self.bindir
    }

    /// The folder of loadable libraries.
    #[must_use]
    pub fn pkglibdir(&self) -> &Path {
        &self.pkglibdir
    }

    /// The version line of `pg_config`, for example `PostgreSQL 15.20`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The major version.
    #[must_use]
    pub fn major(&self) -> u32 {
        self.major
    }

    /// Whether the server was configured with this option, for example `--with-icu`.
    #[must_use]
    pub fn has_feature(&self, option: &str) -> bool {
        self.configure
            .split_whitespace()
            .any(|word| word.trim_matches('\'') == option)
    }

    /// Whether `CREATE EXTENSION name` can work.
    #[must_use]
    pub fn has_extension(&self, name: &str) -> bool {
        self.sharedir
            .join("extension")
            .join(format!("{name}.control"))
            .is_file()
    }

    /// Whether this program was installed.
    #[must_use]
    pub fn has_program(&self, name: &str) -> bool {
        self.bindir.join(name).is_file()
    }

    /// A command for one of the installed programs, as the server's user and with a neutral environment.
    pub fn command(&self, program: &str) -> Result<Command> {
        let path = self.bindir.join(program);
        if !path.is_file() {
            return Err(Error::new(format!(
                "{} has no program {program}",
                self.bindir.display()
            )));
        }
        server_command(&path)
    }
}
