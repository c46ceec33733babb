//! Goal: a clone commits by itself or is refused; files and catalog never disagree (S14). Method: the CALL from every
//! kind of place: block, savepoint, function, DO, procedure, exception block, several statements in one message,
//! pipeline, read-only and serializable sessions.

use pg_test::checks::text;
use pg_test::{Cluster, Fingerprint, Result, Source};

use crate::support::{call, cluster, connection_limit, expect_nothing_left, expect_whole};

fn small_source() -> Result<Cluster> {
    let cluster = cluster()?;
    cluster.batch("postgres", &["CREATE DATABASE src", "CREATE TABLE marks (a int)"])?;
    cluster.batch("src", &["CREATE TABLE t AS SELECT generate_series(1, 100) a"])?;
    Ok(cluster)
}

/// Statements that hold the CALL where it cannot commit.
fn refused(call: &str) -> Vec<(&'static str, String)> {
    let quoted = call.replace('\'', "''");
    vec![
        ("block", format!("BEGIN; {call}; COMMIT")),
        ("savepoint", format!("BEGIN; SAVEPOINT s; {call}")),
        ("one message", format!("INSERT INTO marks VALUES (1); {call}")),
        (
            "function",
            format!(
                "CREATE FUNCTION pg_temp.f() RETURNS void LANGUAGE plpgsql AS $f$ BEGIN EXECUTE '{quoted}'; END $f$; \
                 SELECT pg_temp.f()"
            ),
        ),
        (
            "exception block",
            format!(
                "DO $$ BEGIN BEGIN {}; EXCEPTION WHEN division_by_zero THEN NULL; END; END $$",
                plpgsql(call)
            ),
        ),
    ]
}

/// The CALL inside PL/pgSQL, which wants a variable for every output column.
fn plpgsql(call: &str) -> String {
    let inner = call.trim_end_matches(')');
    format!(
        "{inner}, strategy => s, database => d, relations => r, blocks => b, bytes => n, reflinked_bytes => rb, \
             wal_bytes => w, pause_ms => p, elapsed_ms => e, details => j)"
    )
}

const VARIABLES: &str = "DECLARE s text; d oid; r bigint; b bigint; n bigint; rb bigint; w bigint; p float8; \
                         e float8; j jsonb;";

#[test]
fn where_it_cannot_commit_it_is_refused_and_nothing_happens() -> Result<()> {
    let cluster = small_source()?;
    for (place, statement) in refused(&call("src", "copy", "")) {
        let statement = statement.replace("DO $$ BEGIN", &format!("DO $$ {VARIABLES} BEGIN"));
        let mut session = cluster.session("postgres")?;
        session
            .expect_error("25001", &statement)
            .map_err(|e| e.context(place))?;
        session.batch("ROLLBACK")?;
        let marks: i64 = session.query_value("SELECT count(*) FROM marks")?;
        assert_eq!(marks, 0, "{place}: the statement before was not committed");
        drop(session);
        expect_nothing_left(&cluster, "copy").map_err(|e| e.context(place))?;
    }
    Ok(())
}

#[test]
fn do_and_procedures_may_clone_again_and_again() -> Result<()> {
    let cluster = small_source()?;
    let source = Fingerprint::of(&cluster, "src")?;
    let mut session = cluster.session("postgres")?;
    let looping = format!(
        "DO $$ {VARIABLES} BEGIN FOR i IN 1..3 LOOP s := 'auto'; {}; \
         INSERT INTO marks VALUES (b); END LOOP; END $$",
        plpgsql("CALL blockwise.clone_database('src', 'copy_' || i)")
    );
    session.batch(&looping)?;
    let marks: i64 = session.query_value("SELECT count(*) FROM marks WHERE a > 100")?;
    assert_eq!(marks, 3, "the results arrived in the block's variables");
    session.batch(&format!(
        "CREATE PROCEDURE make(name text) LANGUAGE plpgsql AS $p$ {VARIABLES} BEGIN s := 'auto'; {}; COMMIT; END $p$",
        plpgsql("CALL blockwise.clone_database('src', name)")
    ))?;
    session.batch("CALL make('copy_4')")?;
    // An error goes through PL/pgSQL's frames, and the session is as good as new.
    session.expect_error("42P04", "CALL make('copy_4')")?;
    session.batch("CALL make('copy_5')")?;
    drop(session);
    for number in 1..=5 {
        expect_whole(&cluster, &source, &format!("copy_{number}"))?;
    }
    Ok(())
}

/// As CREATE DATABASE: it is committed although the pipeline fails later, and refused when the pipeline has already
/// done something.
#[test]
fn in_a_pipeline_it_behaves_as_create_database() -> Result<()> {
    let cluster = small_source()?;
    cluster.allow_log("division by zero");
    let source = Fingerprint::of(&cluster, "src")?;
    let call = call("src", "copy", "");
    let script = format!("\\startpipeline\n{call};\nSELECT 1/0;\n\\endpipeline\n");
    let output = cluster.pgbench("postgres", &script, &["-M", "extended"])?;
    assert!(text(&output).contains("division by zero"), "{}", text(&output));
    expect_whole(&cluster, &source, "copy")?;
    cluster.batch("postgres", &["DROP DATABASE copy"])?;

    cluster.allow_log("cannot be executed within a pipeline|cannot run inside a transaction block|current transaction is aborted");
    let script = format!("\\startpipeline\nINSERT INTO marks VALUES (1);\n{call};\n\\endpipeline\n");
    let output = cluster.pgbench("postgres", &script, &["-M", "extended"])?;
    assert!(!output.status.success(), "{}", text(&output));
    let marks: i64 = cluster
        .session("postgres")?
        .query_value("SELECT count(*) FROM marks")?;
    assert_eq!(marks, 0, "the INSERT of the refused pipeline was not committed");
    cluster.wait_unused("postgres")?;
    expect_nothing_left(&cluster, "copy")
}

#[test]
fn session_defaults_for_transactions_are_respected() -> Result<()> {
    let cluster = small_source()?;
    let source = Fingerprint::of(&cluster, "src")?;
    let mut session = cluster.session("postgres")?;
    session.batch("SET default_transaction_read_only = on")?;
    session.expect_error("25006", &call("src", "copy", ""))?;
    assert_eq!(connection_limit(&cluster, "copy")?, None);
    session.batch(
        "SET default_transaction_read_only = off; SET default_transaction_isolation = 'serializable'",
    )?;
    session.batch("SET default_transaction_deferrable = on; SET synchronous_commit = off")?;
    session.batch(&call("src", "copy", ""))?;
    assert_eq!(
        session.query_value::<String>("SHOW transaction_isolation")?,
        "serializable"
    );
    // Row security and an odd search_path must not change what the extension's own statements do.
    session.batch("SET search_path = ''; SET row_security = off")?;
    session.batch("DROP DATABASE copy")?;
    session.batch(&call("src", "copy", ""))?;
    expect_whole(&cluster, &source, "copy")
}

#[test]
fn a_standby_refuses() -> Result<()> {
    let primary = cluster()?;
    Source::new().rows(50).build(&primary, "shop")?;
    let standby = primary.standby()?;
    standby
        .session("postgres")?
        .expect_error("25006", &call("shop", "copy", ""))?;
    Ok(())
}

#[test]
fn a_prepared_and_a_parameterised_call_work() -> Result<()> {
    let cluster = small_source()?;
    let source = Fingerprint::of(&cluster, "src")?;
    let mut session = cluster.session("postgres")?;
    let statement = session.client().prepare("CALL blockwise.clone_database($1, $2)");
    let statement = statement.map_err(pg_test::SqlError::from)?;
    for target in ["copy_1", "copy_2"] {
        session
            .client()
            .query_one(&statement, &[&"src", &target])
            .map_err(pg_test::SqlError::from)?;
        expect_whole(&cluster, &source, target)?;
    }
    Ok(())
}
