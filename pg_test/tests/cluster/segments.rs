//! Goal: relations of more than a gigabyte are copied, logged and removed in all their segments, on a standby too
//! (S27). Method: a table of 1.2 GB whose second segment has rows; most of it are all-zero blocks, as a crash during a
//! large extension leaves them, so that the source costs nothing to make.

use std::fs::OpenOptions;
use std::path::PathBuf;

use pg_test::orphans::expect_no_unowned_files;
use pg_test::{Cluster, Fingerprint, Result};

use crate::support::{clone, cluster, expect_nothing_left, expect_whole};

const SEGMENT: u64 = 1 << 30;
const REST: u64 = 200 << 20;

/// A table whose rows stand in the first block and, behind 1.2 GB of zeros, in the last ones.
fn make_source(cluster: &Cluster) -> Result<()> {
    cluster.batch("postgres", &["CREATE DATABASE src"])?;
    cluster.batch(
        "src",
        &[
            "CREATE TABLE big (a int)",
            "INSERT INTO big VALUES (1)",
            "CHECKPOINT",
        ],
    )?;
    let first = cluster.relation_path("src", "big")?;
    OpenOptions::new().write(true).open(&first)?.set_len(SEGMENT)?;
    let second = second_segment(&first);
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&second)?
        .set_len(REST)?;
    pg_test::process::give_to_server_user(&second)?;
    cluster.batch(
        "src",
        &["INSERT INTO big SELECT generate_series(2, 5000)", "CHECKPOINT"],
    )
}

fn second_segment(first: &std::path::Path) -> PathBuf {
    let mut name = first.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// The sizes of a table's two segments, in bytes; 0 where there is no file.
fn sizes(path: &std::path::Path) -> [u64; 2] {
    [path.to_owned(), second_segment(path)].map(|path| std::fs::metadata(path).map_or(0, |file| file.len()))
}

#[test]
fn every_segment_is_copied_logged_and_removed() -> Result<()> {
    let primary = cluster()?;
    make_source(&primary)?;
    let standby = primary.standby()?;
    let source = Fingerprint::of(&primary, "src")?;
    let outcome = clone(&primary, "src", "copy")?;
    assert!(outcome.blocks > (SEGMENT + REST) / 8192, "{outcome:?}");
    expect_whole(&primary, &source, "copy")?;
    let path = primary.relation_path("copy", "big")?;
    let expected = sizes(&primary.relation_path("src", "big")?);
    assert!(expected[0] == SEGMENT && expected[1] >= REST, "{expected:?}");
    assert_eq!(sizes(&path), expected);

    primary.crash_and_recover()?;
    assert_eq!(sizes(&path), expected);
    source.expect_equal(&Fingerprint::of(&primary, "copy")?)?;
    standby.write_out_as_standby(&primary)?;
    let on_standby = standby.relation_path("copy", "big")?;
    assert_eq!(sizes(&on_standby), expected);
    source.expect_equal(&Fingerprint::of(&standby, "copy")?)?;

    primary.batch("copy", &["DROP TABLE big"])?;
    standby.write_out_as_standby(&primary)?;
    assert_eq!(
        (sizes(&path), sizes(&on_standby)),
        ([0; 2], [0; 2]),
        "after the drop of the table"
    );
    clone(&primary, "src", "again")?;
    let path = primary.relation_path("again", "big")?;
    primary.batch("postgres", &["DROP DATABASE again"])?;
    standby.write_out_as_standby(&primary)?;
    assert_eq!(sizes(&path), [0; 2]);
    expect_nothing_left(&primary, "again")?;
    expect_no_unowned_files(&standby)
}
