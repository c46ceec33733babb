//! The rules that look at lines.

use super::Finding;
use super::lexer::Source;
use std::path::Path;

/// The most lines a file may have.
const MAX_LINES: usize = 600;

/// The attribute that every safe module of the extension carries.
const DENY_UNSAFE: &str = "#![deny(unsafe_code)]";

/// Every Rust file says first what it is for.
pub(super) fn head(text: &str) -> Vec<Finding> {
    if text.starts_with("//!") {
        return Vec::new();
    }
    vec![Finding::at(
        0,
        "the file does not begin with `//!` and what it is for",
    )]
}

/// No file is longer than a person reads in one go.
pub(super) fn length(text: &str) -> Vec<Finding> {
    let count = text.lines().count();
    if count <= MAX_LINES {
        return Vec::new();
    }
    vec![Finding::at(
        MAX_LINES,
        format!("the file has {count} lines, more than {MAX_LINES}: split it"),
    )]
}

/// No tabs, no spaces at the end of a line, and a line feed at the end of the file.
pub(super) fn whitespace(text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Not `lines`, which would hide a carriage return.
    for (index, line) in text.split('\n').enumerate() {
        if line.ends_with([' ', '\t', '\r']) {
            findings.push(Finding::at(index, "white space at the end of the line"));
        } else if line.contains('\t') {
            findings.push(Finding::at(index, "a tab: use spaces"));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        findings.push(Finding::at(
            text.lines().count() - 1,
            "no line feed at the end of the file",
        ));
    }
    findings
}

/// Nothing is left for later: no stubs, no switched-off tests, no marks, no debugging output.
pub(super) fn unfinished(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in source.code.iter().enumerate() {
        for name in ["todo", "unimplemented", "dbg"] {
            if calls(line, &format!("{name}!")) {
                findings.push(Finding::at(index, format!("`{name}!` is not for committed code")));
            }
        }
        if line.contains("#[ignore") {
            findings.push(Finding::at(
                index,
                "a test that is switched off proves nothing: repair or remove it",
            ));
        }
    }
    for (index, line) in source.comments.iter().enumerate() {
        for mark in [["FIX", "ME"].concat(), "X".repeat(3)] {
            if words(line).any(|word| word == mark) {
                findings.push(Finding::at(
                    index,
                    format!("`{mark}`: do it now or file an issue"),
                ));
            }
        }
    }
    findings
}

/// Where unsafe code of the extension may be.
fn may_be_unsafe(file: &Path) -> bool {
    file.starts_with("src/storage") || file.starts_with("src/compat") || file == Path::new("src/ffi.rs")
}

/// Unsafe code lies in few places, and every other module has the compiler watch over that.
pub(super) fn unsafe_code(file: &Path, source: &Source) -> Vec<Finding> {
    if may_be_unsafe(file) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in source.code.iter().enumerate() {
        // `#[unsafe(no_mangle)]` is an attribute and a matter of the compiler's lint.
        let is_unsafe = positions(line, "unsafe").any(|at| !line[at + "unsafe".len()..].starts_with('('));
        if is_unsafe {
            findings.push(Finding::at(
                index,
                "unsafe code outside src/storage, src/compat and src/ffi.rs",
            ));
        }
    }
    let denied = source.code.iter().any(|line| line.trim() == DENY_UNSAFE);
    if !denied && file != Path::new("src/lib.rs") {
        findings.push(Finding::at(
            0,
            format!("the module does not carry `{DENY_UNSAFE}`"),
        ));
    }
    findings
}

/// Differences between major versions are dealt with in one place.
pub(super) fn version_features(file: &Path, source: &Source) -> Vec<Finding> {
    if file.starts_with("src/compat") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in source.code_and_strings.iter().enumerate() {
        let squeezed: String = line.split_whitespace().collect();
        let versions = squeezed.split("feature=\"pg").skip(1);
        if versions
            .into_iter()
            .any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        {
            findings.push(Finding::at(
                index,
                "a condition on the major version outside src/compat",
            ));
        }
    }
    findings
}

/// Errors are raised through the catalogue in src/error.rs, so that each has its SQLSTATE and its test.
pub(super) fn raised_errors(file: &Path, source: &Source) -> Vec<Finding> {
    if file == Path::new("src/error.rs") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    // Test modules stand at the foot of a file; what is below their attribute may fail as it likes.
    let end = source
        .code_and_strings
        .iter()
        .position(|line| begins_tests(line))
        .unwrap_or(source.code.len());
    for (index, line) in source.code[..end].iter().enumerate() {
        for name in ["ereport!", "error!", "panic!"] {
            if calls(line, name) {
                findings.push(Finding::at(
                    index,
                    format!("`{name}` outside src/error.rs: add the error to its catalogue"),
                ));
            }
        }
        if line.contains(".unwrap()") {
            findings.push(Finding::at(
                index,
                "`.unwrap()`: return an error, or `expect` with the invariant",
            ));
        }
    }
    findings
}

/// Whether a line is the attribute of a test module.
fn begins_tests(line: &str) -> bool {
    let squeezed: String = line.split_whitespace().collect();
    squeezed.starts_with("#[cfg(test)]") || squeezed.starts_with("#[cfg(any(test,feature=\"pg_test\"))]")
}

/// No path that only exists on somebody's machine.
pub(super) fn private_paths(text: &str, places: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for place in places {
            // A path that only contains the same word further down is another path.
            let begins = |at: usize| line[..at].chars().next_back().is_none_or(|c| !in_path(c));
            if line.match_indices(place.as_str()).any(|(at, _)| begins(at)) {
                findings.push(Finding::at(
                    index,
                    format!("`{place}` names a place on one machine"),
                ));
            }
        }
    }
    findings
}

/// Whether a character before a slash makes that slash part of a longer path.
fn in_path(c: char) -> bool {
    c.is_alphanumeric() || "_-.~}>*/".contains(c)
}

/// Where `word` stands in a line as a whole word.
fn positions<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = line[..*at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

/// Whether a line calls the macro `name`, which ends in its exclamation mark.
fn calls(line: &str, name: &str) -> bool {
    let preceded = |at: usize| {
        line[..at]
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || c == '_')
    };
    line.match_indices(name)
        .any(|(at, _)| !preceded(at) && line[at + name.len()..].trim_start().starts_with(['(', '{', '[']))
}

/// The words of a line.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(findings: &[Finding]) -> Vec<usize> {
        findings.iter().map(|finding| finding.line).collect()
    }

    fn source(text: &str) -> Source {
        Source::read(text)
    }

    #[test]
    fn a_file_says_first_what_it_is_for() {
        assert!(head("//! Blocks.\n").is_empty());
        assert_eq!(lines(&head("// Blocks.\n")), [1]);
        assert_eq!(lines(&head("use x;\n//! Late.\n")), [1]);
    }

    #[test]
    fn long_files_are_reported_at_the_first_line_too_many() {
        assert!(length(&"x\n".repeat(MAX_LINES)).is_empty());
        assert_eq!(lines(&length(&"x\n".repeat(MAX_LINES + 1))), [MAX_LINES + 1]);
    }

    #[test]
    fn tabs_and_trailing_space_are_reported() {
        assert!(whitespace("a b\n\nc\n").is_empty());
        assert_eq!(
            lines(&whitespace("a \n\tb\nc\t\nd\r\n")),
            [1, 2, 3, 4].map(|line| line)
        );
        assert_eq!(lines(&whitespace("a\nb")), [2]);
    }

    #[test]
    fn stubs_and_marks_are_reported_where_they_mean_it() {
        let stub = ["to", "do!()"].concat();
        assert_eq!(
            lines(&unfinished(&source(&format!("fn f() {{ {stub} }}\n")))),
            [1]
        );
        assert!(unfinished(&source(&format!("// {stub} is forbidden\nlet x = \"{stub}\";\n"))).is_empty());
        assert!(unfinished(&source("my_dbg!(x);\n")).is_empty());
        assert_eq!(lines(&unfinished(&source("dbg!(x);\n"))), [1]);
        assert_eq!(
            lines(&unfinished(&source("#[ignore = \"slow\"]\nfn f() {}\n"))),
            [1]
        );
        let mark = ["FIX", "ME"].concat();
        assert_eq!(
            lines(&unfinished(&source(&format!("a\n// {mark}: later\n")))),
            [2]
        );
        assert!(unfinished(&source("// SQLSTATE XX000, XXXX\n")).is_empty());
    }

    #[test]
    fn unsafe_code_has_its_places() {
        let text = "#![deny(unsafe_code)]\nunsafe { f() }\n";
        assert_eq!(
            lines(&unsafe_code(Path::new("src/clone/copy.rs"), &source(text))),
            [2]
        );
        assert!(unsafe_code(Path::new("src/storage/page.rs"), &source(text)).is_empty());
        assert!(unsafe_code(Path::new("src/ffi.rs"), &source(text)).is_empty());
        let talk =
            "#![deny(unsafe_code)]\n// unsafe is far away\nlet a = \"unsafe\";\n#[unsafe(no_mangle)]\n";
        assert!(unsafe_code(Path::new("src/clone/copy.rs"), &source(talk)).is_empty());
    }

    #[test]
    fn safe_modules_say_so() {
        assert_eq!(
            lines(&unsafe_code(Path::new("src/error.rs"), &source("//! Errors.\n"))),
            [1]
        );
        assert!(unsafe_code(Path::new("src/lib.rs"), &source("//! All.\n")).is_empty());
        let commented = source("// #![deny(unsafe_code)]\n");
        assert_eq!(lines(&unsafe_code(Path::new("src/error.rs"), &commented)), [1]);
    }

    #[test]
    fn major_versions_are_told_apart_in_compat_only() {
        let text = source("#[cfg( feature = \"pg15\")]\n#[cfg(any(test, feature = \"pg_test\"))]\n");
        assert_eq!(
            lines(&version_features(Path::new("src/storage/wal.rs"), &text)),
            [1]
        );
        assert!(version_features(Path::new("src/compat/mod.rs"), &text).is_empty());
    }

    #[test]
    fn errors_are_raised_in_the_catalogue_or_in_tests() {
        let text = "pgrx::error!(\"x\");\nmy_error!(1);\na.unwrap();\nlet panic = 1;\n// panic!()\n";
        let file = Path::new("src/clone/copy.rs");
        assert_eq!(lines(&raised_errors(file, &source(text))), [1, 3]);
        assert!(raised_errors(Path::new("src/error.rs"), &source(text)).is_empty());
        for attribute in ["#[cfg(test)]", "#[cfg(any(test, feature = \"pg_test\"))]"] {
            assert!(
                raised_errors(file, &source(&format!("{attribute}\nmod tests {{\n{text}}}\n"))).is_empty()
            );
        }
    }

    #[test]
    fn places_on_one_machine_are_reported() {
        let places = ["/secret/".to_owned()];
        assert_eq!(
            lines(&private_paths("x\nsee /secret/x\n\"/secret/\"\n", &places)),
            [2, 3]
        );
        assert!(private_paths("a/secret/b\n/secrets\n", &places).is_empty());
    }
}
