//! The account of a test run: what each stage came to and how long it took.

use crate::exec::{say, seconds};
use anyhow::{Result, bail};
use std::time::{Duration, Instant};

/// What a stage came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// Not run, because something it needs failed or does not exist.
    Skipped,
}

/// One line of the account.
#[derive(Debug)]
struct Line {
    name: String,
    outcome: Outcome,
    time: Duration,
}

/// The account itself.
#[derive(Debug, Default)]
pub(super) struct Report {
    lines: Vec<Line>,
}

impl Report {
    /// An empty account.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Runs a stage and writes it down; an error is shown at once. Returns whether it passed.
    pub(super) fn stage(&mut self, name: &str, work: impl FnOnce() -> Result<()>) -> bool {
        say(&format!("\n== {name}"));
        let start = Instant::now();
        let outcome = match work() {
            Ok(()) => Outcome::Passed,
            Err(error) => {
                say(&format!("FAILED: {name}: {error:#}"));
                Outcome::Failed
            }
        };
        self.lines.push(Line {
            name: name.to_owned(),
            outcome,
            time: start.elapsed(),
        });
        outcome == Outcome::Passed
    }

    /// Writes down a stage that is left out, and why.
    pub(super) fn skip(&mut self, name: &str, reason: &str) {
        say(&format!("\n== {name}\nnot run: {reason}"));
        self.lines.push(Line {
            name: name.to_owned(),
            outcome: Outcome::Skipped,
            time: Duration::ZERO,
        });
    }

    /// The table that ends a run.
    fn table(&self) -> String {
        let width = self.lines.iter().map(|line| line.name.len()).max().unwrap_or(0);
        let mut table = String::from("\n");
        for line in &self.lines {
            let word = match line.outcome {
                Outcome::Passed => "passed",
                Outcome::Failed => "FAILED",
                Outcome::Skipped => "not run",
            };
            table.push_str(&format!(
                "{:width$}  {word:7}  {:>8}\n",
                line.name,
                seconds(line.time)
            ));
        }
        table
    }

    /// How many stages came to `outcome`.
    fn count(&self, outcome: Outcome) -> usize {
        self.lines.iter().filter(|line| line.outcome == outcome).count()
    }

    /// The closing line.
    fn summary(&self) -> String {
        let not_run = match self.count(Outcome::Skipped) {
            0 => String::new(),
            count => format!(", {count} not run"),
        };
        format!(
            "{} passed, {} failed{not_run}",
            self.count(Outcome::Passed),
            self.count(Outcome::Failed)
        )
    }

    /// Prints the table and the closing line; an error if any stage failed.
    pub(super) fn finish(self) -> Result<()> {
        println!("{}\n{}", self.table(), self.summary());
        match self.count(Outcome::Failed) {
            0 => Ok(()),
            1 => bail!("one stage failed"),
            count => bail!("{count} stages failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_stage_makes_the_run_fail() {
        let mut report = Report::new();
        assert!(report.stage("good", || Ok(())));
        assert!(!report.stage("bad", || bail!("no")));
        report.skip("later", "bad failed");
        assert_eq!(report.summary(), "1 passed, 1 failed, 1 not run");
        assert!(report.finish().is_err());
    }

    #[test]
    fn a_good_run_closes_with_no_failures() {
        let mut report = Report::new();
        report.stage("good", || Ok(()));
        assert_eq!(report.summary(), "1 passed, 0 failed");
        assert!(report.finish().is_ok());
    }
}
