//! Goal: a database of 20 000 relations is cloned in flat memory. Method: the anonymous memory of the backend, read
//! from /proc while it copies, against what it had after a small clone in the same session.

use std::thread::sleep;
use std::time::Duration;

use pg_test::process::memory_kb;
use pg_test::{Cluster, Result};

use crate::support::{builder, call, start};

const TABLES: usize = 20_000;
const ROOM_KB: u64 = 6 * 1024;

fn make_source(cluster: &Cluster) -> Result<()> {
    cluster.batch("postgres", &["CREATE DATABASE many"])?;
    let mut session = cluster.session("many")?;
    session.batch("SET client_min_messages = warning")?;
    for part in 0..TABLES / 1000 {
        session.batch(&format!(
            "DO $$ BEGIN FOR n IN {}..{} LOOP EXECUTE 'CREATE TABLE t' || n || ' (a int)'; END LOOP; END $$",
            part * 1000,
            part * 1000 + 999
        ))?;
    }
    Ok(())
}

#[test]
fn twenty_thousand_relations_are_cloned_in_flat_memory() -> Result<()> {
    let cluster = start(
        builder()
            .set("max_locks_per_transaction", "256")
            .set("shared_buffers", "128MB"),
    )?;
    make_source(&cluster)?;
    let mut session = cluster.session("postgres")?;
    // Whatever a session loads once is loaded.
    session.batch(&call("template1", "small", ""))?;
    let before = memory_kb(session.pid(), "RssAnon")?;
    let running = session.spawn(call("many", "copy", ""));
    let pid = running.pid();
    let mut highest = 0;
    while !running.is_finished() {
        highest = highest.max(memory_kb(pid, "RssAnon").unwrap_or(0));
        sleep(Duration::from_millis(5));
    }
    let (session, rows) = running.join_ok()?;
    let after = memory_kb(session.pid(), "RssAnon")?;
    println!("anonymous memory: {before} kB before, at most {highest} kB during, {after} kB after the clone");
    assert!(
        highest > 0 && highest < before + ROOM_KB,
        "{before} kB before, {highest} kB at most"
    );
    let relations: usize = rows[0][2]
        .as_deref()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    assert!(relations > TABLES, "{relations} relations");
    let tables: i64 = cluster
        .session("copy")?
        .query_value("SELECT count(*) FROM pg_class WHERE relname ~ '^t\\d+$'")?;
    assert_eq!(tables, TABLES as i64);
    let empty: i64 = cluster
        .session("copy")?
        .query_value("SELECT count(*) FROM t19999")?;
    assert_eq!(empty, 0);
    Ok(())
}
