//! Goal: any name that a database may have works as source and as target, and any other is refused clearly.
//! Method: names with quotes, spaces, 63 bytes, several scripts; empty, too long, NULL, taken, the same.

use pg_test::{Fingerprint, Result, identifier};

use crate::support::{call, clone, cluster, connection_limit, expect_nothing_left, expect_whole};

#[test]
fn odd_names_work() -> Result<()> {
    let cluster = cluster()?;
    let longest = "x".repeat(63);
    let longest_of_two_bytes = format!("{}y", "é".repeat(31));
    let names = [
        "with space",
        "\"quoted\"",
        "it's",
        "a\\b/c",
        "$$;--",
        "SELECT",
        "UPPER",
        "pg_x",
        "Ünïcødé 数据库 🐘",
        "..",
        longest.as_str(),
        longest_of_two_bytes.as_str(),
    ];
    let mut source = "template1".to_owned();
    for name in names {
        clone(&cluster, &source, name).map_err(|e| e.context(name))?;
        cluster.batch(name, &["CREATE TABLE IF NOT EXISTS mark (a int)"])?;
        source = name.to_owned();
    }
    let fingerprint = Fingerprint::of(&cluster, &source)?;
    clone(&cluster, &source, "plain")?;
    expect_whole(&cluster, &fingerprint, "plain")?;
    for name in names {
        cluster
            .session("postgres")?
            .batch(&format!("DROP DATABASE {}", identifier(name)))?;
        expect_nothing_left(&cluster, name)?;
    }
    Ok(())
}

#[test]
fn what_is_no_name_is_refused_clearly() -> Result<()> {
    let cluster = cluster()?;
    let mut session = cluster.session("postgres")?;
    let too_long = "x".repeat(64);
    for (source, target, sqlstate, word) in [
        ("template1", "", "42602", "target"),
        ("", "copy", "42602", "source"),
        ("template1", too_long.as_str(), "42622", "63"),
        (too_long.as_str(), "copy", "42622", "63"),
        ("no_such_database", "copy", "3D000", "no_such_database"),
        ("template1", "postgres", "42P04", "postgres"),
        ("template1", "template1", "42P04", "template1"),
    ] {
        let error = session.expect_error(sqlstate, &call(source, target, ""))?;
        assert!(error.to_string().contains(word), "{error}");
    }
    session.expect_error("22004", "CALL blockwise.clone_database(NULL, 'copy')")?;
    session.expect_error("22004", "CALL blockwise.clone_database('template1', NULL)")?;
    assert_eq!(connection_limit(&cluster, "copy")?, None);
    expect_nothing_left(&cluster, &too_long[..63])
}
