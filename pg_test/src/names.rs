//! Quoting of names and texts for SQL.

/// `name` as an SQL identifier, always quoted.
#[must_use]
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// `text` as an SQL string constant (standard_conforming_strings on).
#[must_use]
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::{identifier, literal};

    #[test]
    fn quotes_are_doubled() {
        assert_eq!(identifier(r#"a"b"#), r#""a""b""#);
        assert_eq!(literal("it's"), "'it''s'");
    }
}
