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

/// Every entry of the catalogue, with the SQLSTATE that users test for.
fn catalogue() -> Vec<(Error, &'static str)> {
    let name = || "shop".to_string();
    let path = || PathBuf::from("base/5/1259");
    vec![
        (Error::NullArgument { argument: "source" }, "22004"),
        (Error::EmptyName { argument: "source" }, "42602"),
        (
            Error::NameTooLong {
                argument: "source",
                name: name(),
                bytes: 70,
                limit: 63,
            },
            "42622",
        ),
        (
            Error::InvalidOption {
                option: "strategy",
                value: name(),
                valid: &["auto"],
            },
            "22023",
        ),
        (Error::InvalidConnectionLimit { limit: -2 }, "22023"),
        (
            Error::InvalidInterval {
                option: "timeout",
                problem: "is negative",
            },
            "22023",
        ),
        (
            Error::OptionNotSupported {
                option: "strategy",
                value: name(),
            },
            "0A000",
        ),
        (Error::CompressionNotBuilt { method: "zstd" }, "0A000"),
        (Error::CannotCommit, "25001"),
        (Error::MayNotCreateDatabase, "42501"),
        (Error::MayNotCopyDatabase { name: name() }, "42501"),
        (Error::MayNotUseTablespace { name: name() }, "42501"),
        (Error::MustBeSuperuser { function: "f" }, "42501"),
        (Error::UndefinedDatabase { name: name() }, "3D000"),
        (Error::InvalidSource { name: name() }, "55000"),
        (Error::DuplicateDatabase { name: name() }, "42P04"),
        (Error::NotOwnClone { name: name() }, "42501"),
        (Error::SourceIsTarget { name: name() }, "22023"),
        (
            Error::SourceBusy {
                name: name(),
                detail: name(),
                waited_ms: None,
            },
            "55006",
        ),
        (
            Error::SourceBusy {
                name: name(),
                detail: name(),
                waited_ms: Some(5),
            },
            "55006",
        ),
        (
            Error::InvalidLocale {
                category: "LC_CTYPE",
                name: name(),
            },
            "42809",
        ),
        (Error::NoCollationVersion { name: name() }, "XX000"),
        (Error::GlobalTablespace, "22023"),
        (
            Error::TablespaceConflict {
                tablespace: name(),
                source: name(),
            },
            "0A000",
        ),
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
        (
            Error::file("write", &path(), io::Error::from_raw_os_error(libc::ENOSPC)),
            "53100",
        ),
        (
            Error::file("open", &path(), io::Error::from_raw_os_error(libc::ENOENT)),
            "58P01",
        ),
        (
            Error::OtherLayout {
                setting: "block_size",
            },
            "0A000",
        ),
        (Error::CloneVanished { name: name() }, "55000"),
        (
            Error::ServerTooOld {
                server: 150_003,
                needed: 150_020,
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
