//! A source database that looks like someone's.

use std::fs::OpenOptions;
use std::io::Write;

use crate::checks::text;
use crate::{Cluster, Error, Result, identifier};

const SCRIPT: &str = include_str!("source.sql");

/// How many all-zero blocks are put behind the last row of table `app.tail`.
const ZERO_TAIL: usize = 5;

/// What the source database is made of beyond the script's tables.
#[derive(Clone, Debug)]
pub struct Source {
    rows: u32,
    side_tablespace: Option<String>,
    zero_tail: bool,
}

impl Default for Source {
    fn default() -> Self {
        Self::new()
    }
}

impl Source {
    /// A small source: some 10 MB.
    #[must_use]
    pub fn new() -> Self {
        Self {
            rows: 2000,
            side_tablespace: None,
            zero_tail: true,
        }
    }

    /// How many rows the larger tables get.
    #[must_use]
    pub fn rows(mut self, rows: u32) -> Self {
        self.rows = rows;
        self
    }

    /// Puts a table and its index into this tablespace, made in place in the data folder.
    #[must_use]
    pub fn side_tablespace(mut self, name: &str) -> Self {
        self.side_tablespace = Some(name.into());
        self
    }

    /// Leaves the all-zero tail out. It is put into the file directly, so a standby never sees the source's own.
    #[must_use]
    pub fn without_zero_tail(mut self) -> Self {
        self.zero_tail = false;
        self
    }

    /// Makes the database.
    pub fn build(&self, cluster: &Cluster, name: &str) -> Result<()> {
        cluster
            .session("postgres")?
            .batch(&format!("CREATE DATABASE {}", identifier(name)))?;
        let output = cluster.psql(name, &format!("\\set rows {}\n{SCRIPT}", self.rows))?;
        if !output.status.success() {
            return Err(Error::new(format!(
                "the source database {name:?}: {}",
                text(&output)
            )));
        }
        if let Some(tablespace) = &self.side_tablespace {
            self.add_side_table(cluster, name, tablespace)?;
        }
        if self.zero_tail {
            add_zero_tail(cluster, name)?;
        }
        // Nothing prunable is left, so that reading alone changes no page and no map.
        cluster.batch(name, &["ANALYZE", "VACUUM", "CHECKPOINT"])?;
        cluster.wait_unused(name)
    }

    fn add_side_table(&self, cluster: &Cluster, name: &str, tablespace: &str) -> Result<()> {
        let mut session = cluster.session(name)?;
        let quoted = identifier(tablespace);
        let known = format!(
            "SELECT count(*) FROM pg_tablespace WHERE spcname = {}",
            crate::literal(tablespace)
        );
        if session.query_value::<i64>(&known)? == 0 {
            session.batch(&format!("CREATE TABLESPACE {quoted} LOCATION ''"))?;
        }
        session.batch(&format!(
            "CREATE TABLE app.side (id int, body text) TABLESPACE {quoted}"
        ))?;
        session.batch(&format!(
            "INSERT INTO app.side SELECT n, repeat('s', 50) FROM generate_series(1, {}) n",
            self.rows
        ))?;
        session.batch(&format!(
            "CREATE INDEX side_id ON app.side (id) TABLESPACE {quoted}"
        ))?;
        Ok(())
    }
}

/// A crash during an extension leaves such blocks; nobody else uses the file while we append.
fn add_zero_tail(cluster: &Cluster, name: &str) -> Result<()> {
    let path = cluster.relation_path(name, "app.tail")?;
    OpenOptions::new()
        .append(true)
        .open(path)?
        .write_all(&vec![0; ZERO_TAIL * 8192])?;
    Ok(())
}
