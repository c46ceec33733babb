//! The catalogue, tested as a table.
#![deny(unsafe_code)]

use super::*;

#[test]
fn lists_read_like_sentences() {
    assert_eq!(quoted_list(&["a"]), "\"a\"");
    assert_eq!(quoted_list(&["a", "b"]), "\"a\" and \"b\"");
    assert_eq!(quoted_list(&["a", "b", "c"]), "\"a\", \"b\", and \"c\"");
}

/// The five characters of a packed SQLSTATE.
fn sqlstate(error: &Error) -> String {
    let packed = error.shape().code as i32;
    (0..5)
        .map(|index| char::from(((packed >> (6 * index)) & 0x3f) as u8 + b'0'))
        .collect()
}

fn name() -> String {
    "shop".to_string()
}

fn path() -> PathBuf {
    PathBuf::from("base/5/1259")
}

/// Every entry of the catalogue, with the SQLSTATE that users test for.
fn catalogue() -> Vec<(Error, &'static str)> {
    [arguments(), rights(), databases(), storage()]
        .into_iter()
        .flatten()
        .collect()
}

fn arguments() -> Vec<(Error, &'static str)> {
    let argument = "source";
    let option = "strategy";
    vec![
        (Error::NullArgument { argument }, "22004"),
        (Error::EmptyName { argument }, "42602"),
        (
            Error::NameTooLong {
                argument,
                name: name(),
                bytes: 70,
                limit: 63,
            },
            "42622",
        ),
        (
            Error::InvalidOption {
                option,
                value: name(),
                valid: &["auto"],
            },
            "22023",
        ),
        (Error::InvalidConnectionLimit { limit: -2 }, "22023"),
        (
            Error::InvalidInterval {
                option,
                problem: "is negative",
            },
            "22023",
        ),
        (
            Error::OptionNotSupported {
                option,
                value: name(),
            },
            "0A000",
        ),
        (Error::CompressionNotBuilt { method: "zstd" }, "0A000"),
        (Error::GlobalTablespace, "22023"),
    ]
}

fn rights() -> Vec<(Error, &'static str)> {
    vec![
        (Error::CannotCommit, "25001"),
        (Error::MayNotCreateDatabase, "42501"),
        (Error::MayNotCopyDatabase { name: name() }, "42501"),
        (Error::MayNotUseTablespace { name: name() }, "42501"),
        (Error::MustBeSuperuser { function: "f" }, "42501"),
        (Error::NotOwnClone { name: name() }, "42501"),
    ]
}

fn databases() -> Vec<(Error, &'static str)> {
    let busy = |waited_ms| Error::SourceBusy {
        name: name(),
        detail: name(),
        waited_ms,
    };
    vec![
        (Error::UndefinedDatabase { name: name() }, "3D000"),
        (Error::InvalidSource { name: name() }, "55000"),
        (Error::DuplicateDatabase { name: name() }, "42P04"),
        (Error::SourceIsTarget { name: name() }, "22023"),
        (busy(None), "55006"),
        (busy(Some(5)), "55006"),
        (
            Error::InvalidLocale {
                category: "LC_CTYPE",
                name: name(),
            },
            "42809",
        ),
        (Error::NoCollationVersion { name: name() }, "XX000"),
        (
            Error::CollationMismatch {
                name: name(),
                recorded: "1".to_string(),
                actual: "2".to_string(),
            },
            "XX000",
        ),
        (
            Error::TablespaceConflict {
                tablespace: name(),
                source: name(),
            },
            "0A000",
        ),
        (Error::CloneVanished { name: name() }, "55000"),
    ]
}

fn storage() -> Vec<(Error, &'static str)> {
    let file = |errno| Error::file("write", &path(), io::Error::from_raw_os_error(errno));
    vec![
        (
            Error::CorruptPage {
                relation: 1,
                path: path(),
                block: 7,
            },
            "XX001",
        ),
        (
            Error::CorruptCatalog {
                path: path(),
                block: 7,
                problem: "damaged",
            },
            "XX001",
        ),
        (file(libc::ENOSPC), "53100"),
        (file(libc::ENOENT), "58P01"),
        (file(libc::EACCES), "42501"),
        (
            Error::ServerTooOld {
                server: 150_003,
                needed: 150_020,
            },
            "0A000",
        ),
        (
            Error::OtherLayout {
                setting: "block_size",
            },
            "0A000",
        ),
    ]
}

#[test]
fn every_error_has_its_sqlstate() {
    for (error, expected) in catalogue() {
        assert_eq!(sqlstate(&error), expected, "{error:?}");
    }
}

#[test]
fn messages_are_in_the_style_of_postgresql() {
    for (error, _) in catalogue() {
        let shape = error.shape();
        assert!(!shape.message.ends_with('.'), "{}", shape.message);
        assert!(
            shape
                .message
                .starts_with(|first: char| !first.is_uppercase() || first == 'W'),
            "{}",
            shape.message
        );
        for sentence in [shape.detail, shape.hint].into_iter().flatten() {
            assert!(sentence == "shop" || sentence.ends_with('.'), "{sentence}");
            assert!(
                sentence == "shop" || sentence.starts_with(char::is_uppercase),
                "{sentence}"
            );
        }
    }
}

#[test]
fn long_values_are_cut_between_characters() {
    assert_eq!(clipped("short"), "short");
    assert_eq!(clipped(&"ü".repeat(40)), format!("{}...", "ü".repeat(31)));
}

#[test]
fn names_in_hints_can_be_pasted() {
    assert_eq!(quoted_identifier("we \"ird"), "\"we \"\"ird\"");
}

#[test]
fn a_full_disk_is_disk_full() {
    let full = io::Error::from_raw_os_error(libc::ENOSPC);
    assert_eq!(
        file_error_code(&full) as i32,
        PgSqlErrorCode::ERRCODE_DISK_FULL as i32
    );
    assert_eq!(plain(&full), "No space left on device");
}
