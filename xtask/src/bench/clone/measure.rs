//! One run: a clone made, with all that it took.

use crate::bench::place::Place;
use anyhow::{Context, Result, anyhow};
use pg_test::Session;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// The clone's name, whoever makes it.
pub(super) const TARGET: &str = "bench_clone";

/// The kernel counts a process's time for its readers in hundredths of a second, on every architecture that matters.
const TICK: Duration = Duration::from_millis(10);

/// What a run took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// From the statement to its answer.
    pub(super) wall: Duration,
    /// WAL inserted meanwhile.
    pub(super) wal_bytes: u64,
    /// The backend's own time, user's and system's.
    pub(super) cpu: Duration,
    /// The next CHECKPOINT.
    pub(super) checkpoint: Duration,
    /// Blocks of the clone in shared buffers when it was done.
    pub(super) target_blocks: u64,
    /// A CHECKPOINT of another session begun meanwhile.
    pub(super) beside: Option<Beside>,
}

/// A checkpoint beside a clone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    /// How long it took.
    pub(super) time: Duration,
    /// Whether the clone was still under way when it began.
    pub(super) in_time: bool,
}

/// Removes the clone of the run before, and lets everything come to rest.
pub(super) fn prepare(place: &Place, session: &mut Session) -> Result<()> {
    session.batch(&format!("DROP DATABASE IF EXISTS {TARGET}"))?;
    session.batch("CHECKPOINT")?;
    place.settle()
}

/// Runs a statement that makes the clone. With `after`, another session makes a checkpoint that long after its start.
pub(super) fn run(
    place: &Place,
    session: &mut Session,
    statement: &str,
    after: Option<Duration>,
) -> Result<Run> {
    let pid = session.pid();
    let before: String = session.query_value("SELECT pg_current_wal_insert_lsn()")?;
    let cpu = cpu_time(pid)?;
    let (wall, beside) = match after {
        None => (timed(session, statement)?, None),
        Some(after) => {
            let mut other = place.cluster().session("postgres")?;
            let (wall, beside) = with_checkpoint(session, statement, &mut other, after)?;
            (wall, Some(beside))
        }
    };
    let cpu = cpu_time(pid)?.saturating_sub(cpu);
    let wal: i64 = session.query_value(&format!(
        "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{before}')::bigint"
    ))?;
    let checkpoint = timed(session, "CHECKPOINT")?;
    Ok(Run {
        wall,
        wal_bytes: wal.unsigned_abs(),
        cpu,
        checkpoint,
        // A checkpoint neither reads nor evicts anything: this is what the clone left there.
        target_blocks: cached_blocks(session, TARGET)?,
        beside,
    })
}

/// Blocks of a database in shared buffers.
pub(super) fn cached_blocks(session: &mut Session, database: &str) -> Result<u64> {
    Ok(session.query_value(&format!(
        "SELECT count(*) FROM pg_buffercache b JOIN pg_database d ON b.reldatabase = d.oid \
         WHERE d.datname = '{database}'"
    ))?)
}

fn timed(session: &mut Session, statement: &str) -> Result<Duration> {
    let start = Instant::now();
    session.batch(statement).with_context(|| statement.to_owned())?;
    Ok(start.elapsed())
}

/// The statement in one session, a checkpoint in another while it runs.
fn with_checkpoint(
    session: &mut Session,
    statement: &str,
    other: &mut Session,
    after: Duration,
) -> Result<(Duration, Beside)> {
    thread::scope(|scope| {
        let clone = scope.spawn(|| timed(session, statement));
        thread::sleep(after);
        let in_time = !clone.is_finished();
        let time = timed(other, "CHECKPOINT");
        let wall = clone
            .join()
            .map_err(|_| anyhow!("the thread of a clone panicked"))??;
        Ok((wall, Beside { time: time?, in_time }))
    })
}

/// What a process has used so far, user's and system's time.
fn cpu_time(pid: i32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    parse_cpu_time(&text).with_context(|| format!("cannot make sense of {path}"))
}

/// Fields 14 and 15; the program's name in field 2 is in parentheses and may have any characters.
fn parse_cpu_time(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u32>().ok();
    Some(TICK * (next()? + next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_that_of_user_and_system() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 900 0 3 0 150 25 0 0 20 0 1 0 99 100 200";
        assert_eq!(parse_cpu_time(stat), Some(Duration::from_millis(1750)));
        assert_eq!(parse_cpu_time("7 (a"), None);
    }
}
