//! What `cargo pgrx test` asks the extension for: how to set its server up.

/// Runs once before the first test.
pub fn setup(_options: Vec<&str>) {}

/// Settings of the test server.
#[must_use]
pub fn postgresql_conf_options() -> Vec<&'static str> {
    vec![]
}
