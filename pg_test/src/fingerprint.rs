//! What a database holds, a line a relation: kind, persistence, fork sizes, a digest over every row and its place.

use std::collections::BTreeSet;

use crate::{Cluster, Error, Result, Session};

/// One row a relation; needs a server built with libxml.
const QUESTION: &str = include_str!("fingerprint.sql");

/// The fingerprint of one database. On a standby it covers what can be read there: the permanent relations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    lines: BTreeSet<String>,
}

impl Fingerprint {
    /// Takes the fingerprint of a database.
    pub fn of(cluster: &Cluster, database: &str) -> Result<Self> {
        let mut session = cluster.session(database)?;
        Self::through(&mut session).map_err(|e| e.context(format!("fingerprint of {database:?}")))
    }

    /// Takes the fingerprint of the session's database.
    pub fn through(session: &mut Session) -> Result<Self> {
        let rows = session.rows(QUESTION)?;
        let lines: BTreeSet<String> = rows.into_iter().map(|row| line(&row)).collect();
        if lines.is_empty() {
            return Err(Error::new(
                "the fingerprint is empty: it would equal any other empty one",
            ));
        }
        Ok(Self { lines })
    }

    /// The part that a standby can show.
    #[must_use]
    pub fn permanent(&self) -> Self {
        let lines = self
            .lines
            .iter()
            .filter(|line| line.split('|').nth(2) == Some("p"))
            .cloned()
            .collect();
        Self { lines }
    }

    /// How many relations it covers.
    #[must_use]
    pub fn relations(&self) -> usize {
        self.lines.len()
    }

    /// Fails, naming the relations, when the other one differs.
    pub fn expect_equal(&self, other: &Self) -> Result<()> {
        if self == other {
            return Ok(());
        }
        let missing = self
            .lines
            .difference(&other.lines)
            .map(|line| format!("- {line}"));
        let added = other
            .lines
            .difference(&self.lines)
            .map(|line| format!("+ {line}"));
        let some: Vec<String> = missing.take(10).chain(added.take(10)).collect();
        Err(Error::new(format!("fingerprints differ:\n{}", some.join("\n"))))
    }
}

fn line(row: &[Option<String>]) -> String {
    let values: Vec<&str> = row.iter().map(|value| value.as_deref().unwrap_or("")).collect();
    values.join("|")
}
