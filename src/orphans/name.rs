//! Names of relation files.
#![deny(unsafe_code)]

/// The file number in the name of a relation file: `[tN_]NNN[_fsm|_vm|_init][.S]`; None for any other file.
pub(crate) fn file_number(name: &str) -> Option<u32> {
    let name = without_backend(name);
    let (name, segment) = match name.split_once('.') {
        Some((name, segment)) => (name, Some(segment)),
        None => (name, None),
    };
    if segment.is_some_and(|segment| number(segment).is_none()) {
        return None;
    }
    let number_part = match name.split_once('_') {
        Some((number, "fsm" | "vm" | "init")) => number,
        Some(_) => return None,
        None => name,
    };
    number(number_part)
}

/// Whether the file belongs to a temporary relation.
pub(crate) fn is_temporary(name: &str) -> bool {
    without_backend(name).len() < name.len()
}

/// The name without the `tN_` of a temporary relation.
fn without_backend(name: &str) -> &str {
    let Some((backend, rest)) = name.strip_prefix('t').and_then(|rest| rest.split_once('_')) else {
        return name;
    };
    if number(backend).is_some() { rest } else { name }
}

/// Digits only, and not more than an OID holds.
fn number(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relation_files() {
        for (name, expected) in [
            ("16384", 16384),
            ("16384.1", 16384),
            ("16384_fsm", 16384),
            ("16384_vm.2", 16384),
            ("16384_init", 16384),
            ("t3_16390", 16390),
            ("t12_16390_fsm", 16390),
            ("t3_16390.1", 16390),
        ] {
            assert_eq!(file_number(name), Some(expected), "{name}");
        }
    }

    #[test]
    fn other_files() {
        for name in [
            "PG_VERSION",
            "pg_filenode.map",
            "pg_internal.init",
            "pg_internal.init.123",
            "pgsql_tmp",
            "16384_",
            "16384_foo",
            "16384.x",
            "16384.",
            "t_16384",
            "tx_16384",
            "",
            "99999999999",
        ] {
            assert_eq!(file_number(name), None, "{name}");
        }
    }

    #[test]
    fn temporary_files() {
        assert!(is_temporary("t3_16390"));
        assert!(!is_temporary("16390_fsm"));
        assert!(!is_temporary("tx_16390"));
    }
}
