//! What is measured: the cases, their bars, and the pairs of runs of each.

use super::measure::{self, Run, TARGET};
use super::sources::Source;
use crate::bench::machine::Fact;
use crate::bench::place::Place;
use crate::bench::table::{Bar, Line, Section, Unit};
use crate::exec::{doing, say};
use anyhow::Result;
use pg_test::Session;
use std::time::Duration;

/// The cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Case {
    /// A pgbench database that nobody uses; blockwise with its defaults.
    Defaults,
    /// The same, page images uncompressed on both sides.
    CompressionOff,
    /// An empty database.
    Empty,
    /// A database of many empty tables.
    Relations,
    /// A CHECKPOINT in another session in the middle of the pgbench database's clone.
    Checkpoint,
}

/// A case with its numbers.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    case: Case,
    title: String,
    /// What is cloned.
    pub(super) source: Source,
    /// Further arguments of ours.
    options: &'static str,
    warm_up: u32,
    pairs: u32,
    /// What our wall time has to show.
    wall: Bar,
    /// What our WAL volume has to show.
    wal: Bar,
}

impl Case {
    /// What the case is with these sizes.
    pub(super) fn plan(self, scale: u32, relations: u32, pairs: u32) -> Plan {
        let pgbench = Source::Pgbench(scale);
        let big = format!("pgbench {scale}");
        let (title, source, wall) = match self {
            Self::Defaults => (format!("{big}, defaults"), pgbench, Bar::Ratio(0.6)),
            Self::CompressionOff => (format!("{big}, compression off"), pgbench, Bar::Ratio(0.7)),
            Self::Empty => ("empty template".into(), Source::Empty, Bar::Ratio(1.05)),
            Self::Relations => {
                let title = format!("{relations} relations");
                (title, Source::Relations(relations), Bar::Ratio(1.2))
            }
            Self::Checkpoint => (format!("{big}, CHECKPOINT beside"), pgbench, Bar::Open),
        };
        Plan {
            case: self,
            title,
            source,
            options: if self == Self::CompressionOff {
                ", wal_compression => 'off'"
            } else {
                ""
            },
            // XFS puts each new directory into the next of its four allocation groups: two pairs have seen them all.
            warm_up: 2,
            pairs: if self == Self::Empty { 4 * pairs } else { pairs },
            wall,
            wal: if self == Self::Defaults {
                Bar::Ratio(0.35)
            } else {
                Bar::Open
            },
        }
    }
}

impl Plan {
    /// Ours, then core's.
    fn statements(&self) -> [String; 2] {
        let source = self.source.database();
        [
            format!(
                "CALL blockwise.clone_database('{source}', '{TARGET}'{})",
                self.options
            ),
            format!("CREATE DATABASE {TARGET} TEMPLATE {source} STRATEGY wal_log"),
        ]
    }
}

/// Measures a case, and adds to the facts what has to be known of it.
pub(super) fn measure(place: &Place, plan: &Plan, facts: &mut Vec<Fact>) -> Result<Section> {
    let statements = plan.statements();
    say(&format!(
        "{}: in turns\n  {}",
        plan.title,
        statements.join("\n  ")
    ));
    let mut session = place.cluster().session("postgres")?;
    let cached = source_in_buffers(plan, &mut session)?;
    let mut last = [Duration::ZERO; 2];
    for number in 1..=plan.warm_up {
        let what = format!("{}: warm-up {number} of {}", plan.title, plan.warm_up);
        let pair = pair(place, &mut session, &what, &statements, None)?;
        last = pair.map(|run| run.wall);
    }
    let beside = (plan.case == Case::Checkpoint).then(|| last.map(|wall| wall / 2));
    let (mut ours, mut core) = (Vec::new(), Vec::new());
    for number in 1..=plan.pairs {
        let what = format!("{}: pair {number} of {}", plan.title, plan.pairs);
        let [first, second] = pair(place, &mut session, &what, &statements, beside)?;
        ours.push(first);
        core.push(second);
    }
    if matches!(plan.source, Source::Pgbench(_)) {
        let after = source_in_buffers(plan, &mut session)?;
        facts.push((
            plan.title.clone(),
            format!("{cached} of the source in shared buffers before the first run, {after} after the last"),
        ));
    }
    let late = ours.iter().chain(&core).filter(|run| came_late(run)).count();
    if late > 0 {
        facts.push((
            plan.title.clone(),
            format!("{late} checkpoints came after the clone's end"),
        ));
    }
    Ok(Section {
        case: plan.title.clone(),
        lines: lines(plan, &ours, &core),
    })
}

/// Ours and then core's, each from the same beginning.
fn pair(
    place: &Place,
    session: &mut Session,
    what: &str,
    statements: &[String; 2],
    beside: Option<[Duration; 2]>,
) -> Result<[Run; 2]> {
    doing(what, || {
        let mut one = |index: usize| -> Result<Run> {
            measure::prepare(place, session)?;
            let after = beside.map(|times| times[index]);
            measure::run(place, session, &statements[index], after)
        };
        Ok([one(0)?, one(1)?])
    })
}

fn came_late(run: &Run) -> bool {
    run.beside.is_some_and(|beside| !beside.in_time)
}

/// How much of the source lies in shared buffers.
fn source_in_buffers(plan: &Plan, session: &mut Session) -> Result<String> {
    let database = plan.source.database();
    let blocks = measure::cached_blocks(session, database)?;
    let bytes: u64 = session.query_value(&format!("SELECT pg_database_size('{database}')"))?;
    Ok(format!(
        "{:.0} %",
        blocks as f64 * 8192.0 * 100.0 / bytes.max(1) as f64
    ))
}

/// What the runs of a case say.
fn lines(plan: &Plan, ours: &[Run], core: &[Run]) -> Vec<Line> {
    let line = |label: &str, unit, bar, value: &dyn Fn(&Run) -> f64| Line {
        label: label.into(),
        unit,
        ours: ours.iter().map(value).collect(),
        core: core.iter().map(value).collect(),
        bar,
    };
    let seconds = |time: Duration| time.as_secs_f64();
    let mut lines = vec![
        line("wall time", Unit::Time, plan.wall, &|run| seconds(run.wall)),
        line("WAL", Unit::Bytes, plan.wal, &|run| run.wal_bytes as f64),
        line("backend CPU", Unit::Time, Bar::Open, &|run| seconds(run.cpu)),
        line("next CHECKPOINT", Unit::Time, Bar::Open, &|run| {
            seconds(run.checkpoint)
        }),
        line("both together", Unit::Time, Bar::Open, &|run| {
            seconds(run.wall + run.checkpoint)
        }),
        line(
            "clone's blocks in shared buffers",
            Unit::Count,
            Bar::None,
            &|run| run.target_blocks as f64,
        ),
    ];
    if plan.case == Case::Checkpoint {
        let beside = |run: &Run| run.beside.map_or(0.0, |beside| seconds(beside.time));
        let first = line("CHECKPOINT beside it", Unit::Time, Bar::Ratio(1.5), &beside);
        lines.insert(0, first);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::table::misses;
    use clap::ValueEnum;

    fn run(millis: u64) -> Run {
        Run {
            wall: Duration::from_millis(millis),
            wal_bytes: millis,
            cpu: Duration::ZERO,
            checkpoint: Duration::ZERO,
            target_blocks: 0,
            beside: None,
        }
    }

    #[test]
    fn each_case_has_a_bar_of_its_own_and_reads_nothing_of_its_target() {
        for &case in Case::value_variants() {
            let plan = case.plan(64, 20_000, 5);
            let section = Section {
                case: plan.title.clone(),
                lines: lines(&plan, &[run(1)], &[run(1)]),
            };
            let bars = section.lines.iter().filter(|line| line.bar != Bar::Open).count();
            assert!(bars >= 2, "{case:?}");
        }
    }

    #[test]
    fn the_bars_are_those_of_the_issue() {
        let plan = Case::Defaults.plan(64, 20_000, 5);
        let section = |ours, core| {
            misses(&[Section {
                case: plan.title.clone(),
                lines: lines(&plan, &[run(ours)], &[run(core)]),
            }])
        };
        assert_eq!(section(60, 100).len(), 1, "WAL only");
        assert_eq!(section(61, 100).len(), 2, "and time");
        assert_eq!(section(35, 100).len(), 0);
        assert_eq!(Case::Empty.plan(64, 20_000, 5).pairs, 20);
    }
}
