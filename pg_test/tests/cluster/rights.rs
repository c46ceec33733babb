//! Goal: who may clone what is core's rule, with core's SQLSTATEs, and a refusal does nothing. Method: roles with and
//! without CREATEDB, ownership, membership and tablespace rights.

use pg_test::{Cluster, Fingerprint, Result, Session};

use crate::support::{call, cluster, connection_limit, expect_nothing_left, expect_whole};

/// Roles: `nobody` may nothing, `maker` may create databases and owns `own`, `other` owns `foreign`.
fn roles() -> Result<Cluster> {
    let cluster = cluster()?;
    cluster.batch(
        "postgres",
        &[
            "CREATE ROLE nobody LOGIN",
            "CREATE ROLE maker LOGIN CREATEDB",
            "CREATE ROLE other LOGIN",
            "CREATE ROLE team",
            "GRANT team TO maker",
            "CREATE DATABASE own OWNER maker",
            "CREATE DATABASE \"foreign\" OWNER other",
            "CREATE DATABASE pattern OWNER other IS_TEMPLATE true",
            "CREATE TABLESPACE closed LOCATION ''",
            "CREATE TABLESPACE open LOCATION ''",
            "GRANT CREATE ON TABLESPACE open TO maker",
        ],
    )?;
    Ok(cluster)
}

fn owner_of(cluster: &Cluster, database: &str) -> Result<String> {
    let question = format!("SELECT datdba::regrole FROM pg_database WHERE datname = '{database}'");
    Ok(cluster.session("postgres")?.query_value(&question)?)
}

fn refuse(session: &mut Session, sqlstate: &str, source: &str, options: &str) -> Result<()> {
    session
        .expect_error(sqlstate, &call(source, "copy", options))
        .map(|_| ())
}

#[test]
fn who_may_not_is_refused_and_nothing_happens() -> Result<()> {
    let cluster = roles()?;
    let mut nobody = cluster.session_as("postgres", "nobody")?;
    for source in ["own", "pattern", "template1", "foreign"] {
        refuse(&mut nobody, "42501", source, "")?;
    }
    let mut maker = cluster.session_as("postgres", "maker")?;
    refuse(&mut maker, "42501", "foreign", "")?;
    refuse(&mut maker, "42501", "postgres", "")?;
    refuse(&mut maker, "42501", "own", "owner => 'other'")?;
    refuse(&mut maker, "42501", "own", "tablespace => 'closed'")?;
    refuse(&mut maker, "42704", "own", "owner => 'no_such_role'")?;
    refuse(&mut maker, "42704", "own", "tablespace => 'no_such_tablespace'")?;
    // Waiting and ending sessions is no way around a right either: the refusal comes first.
    refuse(&mut maker, "42501", "foreign", "on_busy => 'wait'")?;
    let bystander = cluster.session("foreign")?.spawn("SELECT pg_sleep(1)");
    refuse(&mut maker, "42501", "foreign", "on_busy => 'terminate'")?;
    bystander.join_ok()?;
    drop((nobody, maker));
    expect_nothing_left(&cluster, "copy")
}

#[test]
fn who_may_clones() -> Result<()> {
    let cluster = roles()?;
    let source = Fingerprint::of(&cluster, "own")?;
    let mut maker = cluster.session_as("postgres", "maker")?;
    maker.batch(&call("own", "copy_own", ""))?;
    maker.batch(&call("pattern", "copy_pattern", ""))?;
    maker.batch(&call("own", "copy_team", "owner => 'team', tablespace => 'open'"))?;
    assert_eq!(owner_of(&cluster, "copy_own")?, "maker");
    assert_eq!(owner_of(&cluster, "copy_pattern")?, "maker");
    assert_eq!(owner_of(&cluster, "copy_team")?, "team");
    expect_whole(&cluster, &source, "copy_own")?;
    expect_whole(&cluster, &source, "copy_team")?;
    // The clone belongs to its owner in every respect.
    maker.batch("DROP DATABASE copy_own")?;
    cluster.batch("postgres", &["DROP DATABASE copy_team", "DROP ROLE team"])?;
    let refused = cluster.session("postgres")?.batch("DROP ROLE maker").err();
    assert!(
        refused.is_some_and(|e| e.code == "2BP01"),
        "the owner of a clone cannot be dropped"
    );
    assert_eq!(connection_limit(&cluster, "copy_pattern")?, Some(-1));
    Ok(())
}

#[test]
fn ending_sessions_needs_the_right_to_end_them() -> Result<()> {
    let cluster = roles()?;
    let superuser = cluster.session("own")?.spawn("SELECT pg_sleep(2)");
    let mut maker = cluster.session_as("postgres", "maker")?;
    refuse(&mut maker, "42501", "own", "on_busy => 'terminate'")?;
    superuser.join_ok()?;
    let strangers = cluster.session_as("own", "other")?.spawn("SELECT pg_sleep(2)");
    refuse(&mut maker, "42501", "own", "on_busy => 'terminate'")?;
    strangers.join_ok()?;
    let mine = cluster.session_as("own", "maker")?.spawn("SELECT pg_sleep(60)");
    maker.batch(&call("own", "copy", "on_busy => 'terminate'"))?;
    let (_, ended) = mine.join()?;
    assert!(ended.is_err_and(|e| e.lost_connection()));
    Ok(())
}
