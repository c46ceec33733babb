//! `cargo xtask tidy`: the house's style rules that neither rustfmt nor clippy checks, as code.
//!
//! Each rule looks at one file and reports `file:line: message`. A rule that is only written down is forgotten;
//! a rule that a person has to point out in a review wears two people out.

mod functions;
mod lexer;
mod rules;

use crate::exec::say;
use crate::repo;
use anyhow::{Context, Result, bail};
use lexer::Source;
use std::fs;
use std::path::{Path, PathBuf};

/// Something that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// The line, from 1.
    line: usize,
    /// What is wrong and what to do instead.
    message: String,
}

impl Finding {
    /// A finding on the line with index `index`.
    fn at(index: usize, message: impl Into<String>) -> Self {
        Self {
            line: index + 1,
            message: message.into(),
        }
    }
}

/// The command.
pub(crate) fn run() -> Result<()> {
    say("Checking the house's style rules, so that reviews can be about what the code does.");
    let root = repo::root()?;
    let files = repo::files(&root)?;
    let places = private_places(&root);
    let mut findings = 0;
    for file in &files {
        let bytes = fs::read(root.join(file)).with_context(|| format!("cannot read {}", file.display()))?;
        // What is not text is no business of ours.
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        for finding in check(file, &text, &places) {
            say(&format!(
                "{}:{}: {}",
                file.display(),
                finding.line,
                finding.message
            ));
            findings += 1;
        }
    }
    match findings {
        0 => {
            say(&format!("✓ {} files keep all rules", files.len()));
            Ok(())
        }
        1 => bail!("one style rule is broken; the line above says where"),
        count => bail!("style rules are broken in {count} places; the lines above say where"),
    }
}

/// All findings in one file.
fn check(file: &Path, text: &str, places: &[String]) -> Vec<Finding> {
    let mut findings = rules::private_paths(text, places);
    let extension = file
        .extension()
        .map(|extension| extension.to_string_lossy().into_owned());
    match extension.as_deref() {
        Some("rs") => findings.extend(check_rust(file, text)),
        Some("sql") => {
            findings.extend(rules::whitespace(text));
            findings.extend(rules::length(text));
        }
        Some("md") => findings.extend(rules::whitespace(text)),
        _ => {}
    }
    findings.sort_by_key(|finding| finding.line);
    findings
}

/// All findings in one Rust file.
fn check_rust(file: &Path, text: &str) -> Vec<Finding> {
    let source = Source::read(text);
    let mut findings = rules::head(text);
    findings.extend(rules::length(text));
    findings.extend(rules::whitespace(text));
    findings.extend(rules::unfinished(&source));
    findings.extend(functions::too_long(&source));
    if file.starts_with("src") {
        findings.extend(rules::unsafe_code(file, &source));
        findings.extend(rules::version_features(file, &source));
        findings.extend(rules::raised_errors(file, &source));
    }
    findings
}

/// Paths that mean something on one machine only: home directories, and where this checkout happens to lie.
fn private_places(root: &Path) -> Vec<String> {
    // Spelled in parts, or this file would break its own rule.
    let mut places = vec![["/", "home", "/"].concat(), ["/", "root", "/"].concat()];
    let shared = ["/", "/tmp", "/var/tmp", "/srv", "/opt", "/usr/src", "/build"].map(PathBuf::from);
    let parent = root
        .parent()
        .filter(|parent| !shared.contains(&parent.to_path_buf()));
    for place in [Some(root), parent].into_iter().flatten() {
        places.push(format!("{}/", place.display()));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(file: &str, text: &str) -> Vec<String> {
        let findings = check(Path::new(file), text, &[]);
        findings
            .into_iter()
            .map(|finding| format!("{}: {}", finding.line, finding.message))
            .collect()
    }

    #[test]
    fn a_clean_feature_module_has_no_findings() {
        let text = "//! About.\n#![deny(unsafe_code)]\n\n/// Does it.\npub(crate) fn f() {}\n";
        assert_eq!(messages("src/clone/mod.rs", text), Vec::<String>::new());
    }

    #[test]
    fn rules_for_the_extension_do_not_touch_other_crates() {
        let text = "//! About.\nfn f() { panic!(\"why\") }\n";
        assert_eq!(messages("pg_test/src/lib.rs", text), Vec::<String>::new());
        assert_eq!(messages("src/lib.rs", text).len(), 1);
    }

    #[test]
    fn a_checkout_in_a_shared_directory_does_not_forbid_that_directory() {
        let places = private_places(Path::new("/tmp/checkout"));
        assert!(places.contains(&"/tmp/checkout/".to_owned()));
        assert!(!places.contains(&"/tmp/".to_owned()));
    }
}
