//! Just enough of Rust's lexer to tell code, strings and comments apart.
//!
//! The rules look for words. A word in a comment or a string is something else than the same word in code, so
//! each rule gets the text with everything but its own kind blanked out, line for line.

/// A Rust source text, seen three ways; all have the same lines.
#[derive(Debug)]
pub(super) struct Source {
    /// Code only: comments and the insides of strings and characters are blank.
    pub(super) code: Vec<String>,
    /// Code and strings: comments are blank.
    pub(super) code_and_strings: Vec<String>,
    /// Comments only.
    pub(super) comments: Vec<String>,
}

/// What a character belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Text,
    Comment,
}

impl Source {
    /// Takes a source text apart.
    pub(super) fn read(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let kinds = kinds(&characters);
        let view = |shown: &[Kind]| -> Vec<String> {
            let masked = characters.iter().zip(&kinds).map(|(character, kind)| {
                if *character == '\n' || shown.contains(kind) {
                    *character
                } else {
                    ' '
                }
            });
            masked.collect::<String>().lines().map(str::to_owned).collect()
        };
        Self {
            code: view(&[Kind::Code]),
            code_and_strings: view(&[Kind::Code, Kind::Text]),
            comments: view(&[Kind::Comment]),
        }
    }
}

/// The kind of each character.
fn kinds(text: &[char]) -> Vec<Kind> {
    let mut kinds = vec![Kind::Code; text.len()];
    let mut at = 0;
    while at < text.len() {
        let (kind, end) = token(text, at);
        let end = end.clamp(at + 1, text.len());
        kinds[at..end].fill(kind);
        at = end;
    }
    kinds
}

/// The kind of the token that begins at `at`, and where it ends. Code comes one character or word at a time.
fn token(text: &[char], at: usize) -> (Kind, usize) {
    let next = text.get(at + 1).copied().unwrap_or(' ');
    match text[at] {
        '/' if next == '/' => (Kind::Comment, find(text, at, |c| c == '\n')),
        '/' if next == '*' => (Kind::Comment, block_comment_end(text, at)),
        '"' => (Kind::Text, string_end(text, at)),
        '\'' => char_end(text, at).map_or((Kind::Code, at + 1), |end| (Kind::Text, end)),
        c if c.is_alphanumeric() || c == '_' => {
            let end = find(text, at, |c| !(c.is_alphanumeric() || c == '_'));
            let word: String = text[at..end].iter().collect();
            let raw = matches!(word.as_str(), "r" | "br" | "cr");
            match raw.then(|| raw_string_end(text, end)).flatten() {
                Some(end) => (Kind::Text, end),
                None => (Kind::Code, end),
            }
        }
        _ => (Kind::Code, at + 1),
    }
}

/// The first position from `from` on whose character fulfils `stop`, or the end.
fn find(text: &[char], from: usize, stop: impl Fn(char) -> bool) -> usize {
    text.get(from..)
        .unwrap_or_default()
        .iter()
        .position(|c| stop(*c))
        .map_or(text.len(), |offset| from + offset)
}

/// The end of a block comment, which may hold others.
fn block_comment_end(text: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < text.len() {
        match (text[at], text.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The end of a string that begins with a quote at `start`.
fn string_end(text: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < text.len() && text[at] != '"' {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// The end of a character literal, or None where the quote begins a lifetime.
fn char_end(text: &[char], start: usize) -> Option<usize> {
    if text.get(start + 1) == Some(&'\\') {
        return Some(find(text, start + 3, |c| c == '\'') + 1);
    }
    (text.get(start + 2) == Some(&'\'')).then_some(start + 3)
}

/// The end of a raw string whose hashes and quote begin at `start`, or None if there is no raw string.
fn raw_string_end(text: &[char], start: usize) -> Option<usize> {
    let quote = find(text, start, |c| c != '#');
    let hashes = quote - start;
    if text.get(quote) != Some(&'"') {
        return None;
    }
    let mut at = quote + 1;
    while at < text.len() {
        let closes = text[at] == '"' && text[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
        if closes {
            return Some(at + 1 + hashes);
        }
        at += 1;
    }
    Some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::read(text)
            .code
            .join("\n")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn comments_and_strings_are_not_code() {
        assert_eq!(code("a // b\nc /* d /* e */ f */ g"), "a c g");
        assert_eq!(code(r#"f("x \" y") + 1"#), "f( ) + 1");
        assert_eq!(code(r###"f(r#"x " y"#) + br"z\" + 1"###), "f( ) + + 1");
    }

    #[test]
    fn lifetimes_are_code_and_characters_are_not() {
        assert_eq!(code("fn f<'a>(x: &'a str)"), "fn f<'a>(x: &'a str)");
        assert_eq!(code(r"['{', '\'', '\u{7d}', 'x']"), "[ , , , ]");
    }

    #[test]
    fn lines_stay_where_they_are() {
        let source = Source::read("a\n\"x\ny\"\n// c\nb\n");
        assert_eq!(source.code.len(), 5);
        assert_eq!(source.code[4], "b");
        assert_eq!(source.comments[3], "// c");
        assert_eq!(source.code_and_strings[1], "\"x");
    }

    #[test]
    fn an_unfinished_text_does_no_harm() {
        for text in ["\"abc", "/* abc", "r#\"abc", "'\\", "'"] {
            assert_eq!(Source::read(text).code.len(), 1, "{text}");
        }
    }
}
