//! Goal: every option does what it says or is refused with the right SQLSTATE before anything happens. Method: a table
//! of wrong values, one of later options, and the row of pg_database for the options of this version.

use pg_test::{Cluster, Fingerprint, Result};

use crate::support::{call, clone_with, cluster, connection_limit, expect_nothing_left, expect_whole};

#[test]
fn wrong_and_later_values_are_refused() -> Result<()> {
    let cluster = cluster()?;
    let mut session = cluster.session("postgres")?;
    for (sqlstate, options) in [
        ("22023", "strategy => 'quick'"),
        ("22023", "on_busy => 'never'"),
        ("22023", "if_exists => 'ignore'"),
        ("22023", "unlogged => 'some'"),
        ("22023", "wal_compression => 'brotli'"),
        ("22023", "connection_limit => -2"),
        ("22023", "timeout => '-1s'"),
        ("22023", "timeout => '25 days'"),
        ("22023", "max_pause => '-1s'"),
        ("22023", "max_pause => '1 month'"),
        ("0A000", "strategy => 'file_copy'"),
        ("0A000", "strategy => 'fsync'"),
        ("0A000", "on_busy => 'online'"),
        ("0A000", "copy_settings => true"),
        ("0A000", "copy_privileges => true"),
        ("0A000", "copy_comment => true"),
        ("0A000", "unlogged => 'empty'"),
        ("0A000", "unlogged => 'error'"),
        ("0A000", "allow_during_backup => true"),
    ] {
        let error = session.expect_error(sqlstate, &call("template1", "copy", options))?;
        let option = options.split(' ').next().unwrap_or_default();
        let named = error.to_string().replace(' ', "_").contains(option);
        assert!(named, "the error names the option: {error}");
    }
    if cluster.installation().major() >= 17 {
        session.expect_error("22023", &call("template1", "copy", "timeout => 'infinity'"))?;
        session.expect_error("22023", &call("template1", "copy", "max_pause => '-infinity'"))?;
    }
    drop(session);
    expect_nothing_left(&cluster, "copy")
}

/// datdba, tablespace, limit, connections, template.
fn row(cluster: &Cluster, database: &str) -> Result<Vec<Option<String>>> {
    Ok(cluster.session("postgres")?.row(&format!(
        "SELECT datdba::regrole, spcname, datconnlimit, datallowconn, datistemplate, datacl IS NULL \
         FROM pg_database d JOIN pg_tablespace t ON t.oid = d.dattablespace WHERE datname = '{database}'"
    ))?)
}

fn texts(values: [&str; 6]) -> Vec<Option<String>> {
    values.map(|value| Some(value.to_owned())).to_vec()
}

#[test]
fn options_end_up_in_the_row() -> Result<()> {
    let cluster = cluster()?;
    cluster.batch(
        "postgres",
        &[
            "CREATE ROLE carol",
            "CREATE TABLESPACE ts LOCATION ''",
            "CREATE DATABASE src",
        ],
    )?;
    // Not copied by default, as in core: limit, template flag, privileges, settings, comment.
    cluster.batch(
        "postgres",
        &[
            "ALTER DATABASE src CONNECTION LIMIT 7 IS_TEMPLATE true ALLOW_CONNECTIONS true",
            "GRANT CONNECT ON DATABASE src TO carol",
            "ALTER DATABASE src SET work_mem = '5MB'",
            "COMMENT ON DATABASE src IS 'the source'",
        ],
    )?;
    let mut session = cluster.session("postgres")?;
    clone_with(&mut session, "src", "plain", "")?;
    assert_eq!(
        row(&cluster, "plain")?,
        texts(["postgres", "pg_default", "-1", "t", "f", "t"])
    );
    let all = "owner => 'carol', tablespace => 'ts', connection_limit => 3, allow_connections => false, \
               is_template => true";
    clone_with(&mut session, "src", "all", all)?;
    assert_eq!(row(&cluster, "all")?, texts(["carol", "ts", "3", "f", "t", "t"]));
    // NULL is the default, whatever the option.
    let nulls = "owner => NULL, tablespace => NULL, connection_limit => NULL, allow_connections => NULL, \
                 is_template => NULL, on_busy => NULL, if_exists => NULL, timeout => NULL, wal_compression => NULL, \
                 strategy => NULL, unlogged => NULL, max_pause => NULL, log_progress => NULL";
    clone_with(&mut session, "src", "nulls", nulls)?;
    assert_eq!(
        row(&cluster, "nulls")?,
        texts(["postgres", "pg_default", "-1", "t", "f", "t"])
    );
    let extras: i64 = session.query_value(
        "SELECT (SELECT count(*) FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase \
                 WHERE datname IN ('plain', 'all', 'nulls')) \
              + (SELECT count(*) FROM pg_shdescription s JOIN pg_database d ON d.oid = s.objoid \
                 WHERE datname IN ('plain', 'all', 'nulls'))",
    )?;
    assert_eq!(extras, 0, "settings and comments of the source do not follow");
    // A source that takes no connections is one that core copies too.
    session.batch("ALTER DATABASE src ALLOW_CONNECTIONS false")?;
    clone_with(&mut session, "src", "from_closed", "")?;
    clone_with(&mut session, "template0", "from_template0", "")?;
    session.expect_error("22023", &call("src", "copy", "tablespace => 'pg_global'"))?;
    Ok(())
}

/// The other columns of the row are core's business: the same as CREATE DATABASE would have made.
#[test]
fn the_row_is_the_one_that_core_would_write() -> Result<()> {
    let cluster = cluster()?;
    cluster.batch(
        "postgres",
        &["CREATE DATABASE src", "CREATE DATABASE by_core TEMPLATE src"],
    )?;
    cluster.batch("src", &["VACUUM FREEZE"])?;
    clone_with(&mut cluster.session("postgres")?, "src", "by_us", "")?;
    cluster.batch(
        "postgres",
        &["DROP DATABASE by_core", "CREATE DATABASE by_core TEMPLATE src"],
    )?;
    let question = |name: &str| {
        format!("SELECT to_jsonb(d) - 'oid' - 'datname' FROM pg_database d WHERE datname = '{name}'")
    };
    let mut session = cluster.session("postgres")?;
    let core: String = session.query_value(&question("by_core"))?;
    let ours: String = session.query_value(&question("by_us"))?;
    assert_eq!(ours, core);
    Ok(())
}

#[test]
fn replace_drops_the_callers_own_clone_and_nothing_else() -> Result<()> {
    let cluster = cluster()?;
    cluster.batch(
        "postgres",
        &[
            "CREATE ROLE maker LOGIN CREATEDB",
            "CREATE DATABASE src OWNER maker",
            "CREATE DATABASE plain OWNER maker",
        ],
    )?;
    let mut maker = cluster.session_as("postgres", "maker")?;
    let replace = "if_exists => 'replace'";
    // Where there is nothing to replace it is an ordinary clone.
    maker.batch(&call("src", "copy", replace))?;
    cluster.batch("copy", &["CREATE TABLE old (a int)"])?;
    cluster.batch("src", &["CREATE TABLE new (a int)"])?;
    maker.expect_error("42P04", &call("src", "copy", ""))?;
    maker.batch(&call("src", "copy", replace))?;
    expect_whole(&cluster, &Fingerprint::of(&cluster, "src")?, "copy")?;

    // Not a clone of ours, not the caller's, the source itself.
    maker.expect_error("42501", &call("src", "plain", replace))?;
    maker.expect_error("42501", &call("src", "postgres", replace))?;
    maker.expect_error("22023", &call("src", "src", replace))?;
    let mut superuser = cluster.session("postgres")?;
    superuser.batch(&call("src", "theirs", ""))?;
    maker.expect_error("42501", &call("src", "theirs", replace))?;
    // In use: core's own refusal of DROP DATABASE, and the old clone stays.
    let user = cluster.session_as("copy", "maker")?;
    maker.expect_error("55006", &call("src", "copy", replace))?;
    drop(user);
    assert_eq!(connection_limit(&cluster, "copy")?, Some(-1));
    // A clone that somebody dropped and made again by hand is no clone of ours any more.
    maker.batch("DROP DATABASE copy")?;
    maker.batch("CREATE DATABASE copy TEMPLATE src")?;
    maker.expect_error("42501", &call("src", "copy", replace))?;
    Ok(())
}

/// A refused clone must not have cost the database that it was to replace.
#[test]
fn a_replacement_that_is_refused_keeps_the_old_clone() -> Result<()> {
    let cluster = cluster()?;
    cluster.batch("postgres", &["CREATE DATABASE src"])?;
    let mut session = cluster.session("postgres")?;
    session.batch(&call("src", "copy", ""))?;
    let busy = cluster.session("src")?;
    session.expect_error("55006", &call("src", "copy", "if_exists => 'replace'"))?;
    session.expect_error(
        "42704",
        &call("src", "copy", "if_exists => 'replace', tablespace => 'nowhere'"),
    )?;
    drop(busy);
    assert_eq!(connection_limit(&cluster, "copy")?, Some(-1));
    // An unfinished clone of the caller's own is replaced as well.
    session.batch("UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'copy'")?;
    session.batch(&call("src", "copy", "if_exists => 'replace'"))?;
    assert_eq!(connection_limit(&cluster, "copy")?, Some(-1));
    Ok(())
}
