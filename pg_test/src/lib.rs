//! The harness: real PostgreSQL servers for tests, demo and bench.
