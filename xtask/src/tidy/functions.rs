//! The rule that a function fits on a screen.

use super::Finding;
use super::lexer::Source;

/// The most lines a function may have, from its `fn` to its closing brace.
const MAX_LINES: usize = 70;

/// A position: index of the line, index of the character in it.
type Position = (usize, usize);

/// Functions with too many lines.
pub(super) fn too_long(source: &Source) -> Vec<Finding> {
    let lines: Vec<Vec<char>> = source.code.iter().map(|line| line.chars().collect()).collect();
    let mut findings = Vec::new();
    for (start, name) in functions(&source.code) {
        if let Some(end) = body_end(&lines, start) {
            let count = end - start.0 + 1;
            if count > MAX_LINES {
                let message = format!("function `{name}` has {count} lines, more than {MAX_LINES}: split it");
                findings.push(Finding::at(start.0, message));
            }
        }
    }
    findings
}

/// Where each `fn name` begins. A function pointer type has no name and is none.
fn functions(code: &[String]) -> Vec<(Position, String)> {
    let mut found = Vec::new();
    for (index, line) in code.iter().enumerate() {
        for (at, _) in line.match_indices("fn ") {
            let before = line[..at].chars().next_back();
            let is_word = before.is_none_or(|c| !(c.is_alphanumeric() || c == '_'));
            let name: String = line[at + 3..]
                .trim_start()
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            if is_word && !name.is_empty() {
                found.push(((index, line[..at].chars().count()), name));
            }
        }
    }
    found
}

/// The line of the brace that closes the body, or None for a declaration without one.
fn body_end(lines: &[Vec<char>], start: Position) -> Option<usize> {
    let (mut braces, mut brackets) = (0_usize, 0_usize);
    for (index, line) in lines.iter().enumerate().skip(start.0) {
        let skipped = if index == start.0 { start.1 } else { 0 };
        for character in line.iter().skip(skipped) {
            match character {
                '{' => braces += 1,
                '}' if braces == 1 => return Some(index),
                '}' => braces = braces.saturating_sub(1),
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets = brackets.saturating_sub(1),
                // A semicolon inside brackets belongs to an array type.
                ';' if braces == 0 && brackets == 0 => return None,
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<Finding> {
        too_long(&Source::read(text))
    }

    /// A function whose whole length is `lines`.
    fn function(lines: usize) -> String {
        format!("fn f(a: [u8; 2]) {{\n{}}}\n", "    g('}');\n".repeat(lines - 2))
    }

    #[test]
    fn a_function_of_the_greatest_length_is_allowed() {
        assert!(found(&function(MAX_LINES)).is_empty());
    }

    #[test]
    fn one_line_more_is_not() {
        let findings = found(&format!("\n{}", function(MAX_LINES + 1)));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 2);
    }

    #[test]
    fn a_declaration_has_no_body() {
        let text = format!("trait T {{\nfn f();\n}}\nmod m {{\n{}}}\n", "\n".repeat(100));
        assert!(found(&text).is_empty());
    }

    #[test]
    fn a_method_in_a_long_impl_is_measured_alone() {
        let text = format!("impl T {{\nfn f() {{}}\n{}fn g() {{}}\n}}\n", "\n".repeat(100));
        assert!(found(&text).is_empty());
    }
}
