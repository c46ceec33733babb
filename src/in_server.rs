//! Tests that need a backend but no cluster of their own: storage types against the server's own answers.
//!
//! Each runs in a transaction that is rolled back, so nothing here can make a clone; that is what the golden files and
//! the cluster tests are for.
#![deny(unsafe_code)]

/// pgrx looks for its tests in the schema `tests`.
#[pgrx::pg_schema]
mod tests {
    use crate::clone::blockers::Blockers;
    use crate::storage::block::{BLOCK_SIZE, Fork};
    use crate::storage::files::SourceSegment;
    use crate::storage::heap::{CommitLog, ServerCommitLog};
    use crate::storage::locator::database_directory;
    use crate::storage::page::PageBuffer;
    use crate::storage::wal::{Compression, CompressionGuard};
    use crate::storage::{database, reader, relmap, role, server, xact};
    use pgrx::pg_sys::Oid;
    use pgrx::prelude::*;
    use std::path::Path;

    fn value<T: FromDatum + IntoDatum>(query: &str) -> T {
        Spi::get_one::<T>(query)
            .expect("the query runs")
            .expect("the query has a value")
    }

    fn current_database() -> Oid {
        value("SELECT oid FROM pg_database WHERE datname = current_database()")
    }

    #[pg_test(error = "blockwise.clone_database() cannot run inside a transaction block or a function")]
    fn a_clone_cannot_be_made_in_a_function() {
        Spi::run("CALL blockwise.clone_database('template0', 'never')").expect("refused before");
    }

    #[pg_test]
    fn the_library_loads_into_this_server() {
        assert!(server::check_version().is_ok());
    }

    #[pg_test]
    fn databases_are_found_as_sql_finds_them() {
        let oid = current_database();
        let found = database::find(oid).expect("the database we are in");
        assert_eq!(found.name, value::<String>("SELECT current_database()::text"));
        assert_eq!(database::oid_by_name(&found.name), Some(oid));
        assert_eq!(database::name_of(oid), Some(found.name));
        assert!(!found.is_invalid && !found.is_template);
        assert!(database::find(Oid::from(u32::MAX)).is_none());
        let template = database::oid_by_name("template0")
            .and_then(database::find)
            .expect("template0");
        assert!(template.is_template);
    }

    #[pg_test]
    fn every_database_is_known_and_finished() {
        let mut known: Vec<u32> = database::all_known()
            .iter()
            .map(|known| known.oid.to_u32())
            .collect();
        known.sort_unstable();
        let listed = value::<Vec<Oid>>("SELECT array_agg(oid ORDER BY oid) FROM pg_database");
        let mut listed: Vec<u32> = listed.into_iter().map(Oid::to_u32).collect();
        listed.sort_unstable();
        assert_eq!(known, listed);
        assert!(database::all_known().iter().all(|known| known.is_finished));
    }

    #[pg_test]
    fn directories_are_where_the_server_has_them() {
        let path = value::<String>("SELECT pg_relation_filepath('pg_class')");
        let directory = database_directory(current_database(), Oid::from(1663));
        assert_eq!(Path::new(&path).parent(), Some(directory.as_path()));
        let number = relmap::file_number(&directory, Oid::from(1259)).expect("pg_class is mapped");
        assert_eq!(path, directory.join(number.to_string()).to_string_lossy());
    }

    #[pg_test]
    fn pages_of_a_relation_verify_and_damaged_ones_do_not() {
        let directory = database_directory(current_database(), Oid::from(1663));
        // pg_type is not mapped, and bootstrap has written it long ago.
        let number = value::<Oid>("SELECT pg_relation_filenode('pg_type')").to_u32();
        let source = SourceSegment::open(&directory, number, Fork::Main, 0);
        let source = source.expect("it can be opened").expect("it is there");
        let mut buffer = PageBuffer::new(4);
        let count = reader::read_verified(&source, 1247, 0, 0, &mut buffer).expect("the pages are right");
        assert_eq!(count, 4);
        // pd_lower beyond the page.
        buffer.page_mut(2)[12..14].copy_from_slice(&(BLOCK_SIZE as u16 + 8).to_ne_bytes());
        assert!(!buffer.is_verified(2, 2));
        assert!(buffer.is_verified(1, 1));
        assert!(
            SourceSegment::open(&directory, number, Fork::Init, 0)
                .expect("no error")
                .is_none()
        );
    }

    #[pg_test]
    fn compression_methods_are_those_of_the_setting() {
        for method in [
            Compression::Off,
            Compression::Pglz,
            Compression::Lz4,
            Compression::Zstd,
        ] {
            let query = format!(
                "SELECT '{}' = ANY (enumvals) FROM pg_settings WHERE name = 'wal_compression'",
                method.name()
            );
            assert_eq!(method.is_built_in(), value::<bool>(&query), "{}", method.name());
        }
    }

    #[pg_test]
    fn compression_is_put_back() {
        let before = value::<String>("SELECT current_setting('wal_compression')");
        {
            let _outer = CompressionGuard::new(Compression::Pglz);
            assert_eq!(
                value::<String>("SELECT current_setting('wal_compression')"),
                "pglz"
            );
            let _inner = CompressionGuard::new(Compression::Off);
            assert_eq!(
                value::<String>("SELECT current_setting('wal_compression')"),
                "off"
            );
        }
        assert_eq!(
            value::<String>("SELECT current_setting('wal_compression')"),
            before
        );
    }

    #[pg_test]
    fn the_commit_log_tells_running_from_committed() {
        let own = value::<i64>("SELECT txid_current() & 4294967295") as u32;
        assert!(ServerCommitLog.in_progress(own) && !ServerCommitLog.committed(own));
        // FrozenTransactionId.
        assert!(ServerCommitLog.committed(2) && !ServerCommitLog.in_progress(2));
        assert!(!xact::holds_nothing_back());
    }

    #[pg_test]
    fn nobody_but_us_is_in_a_template() {
        let template = database::oid_by_name("template0").expect("template0");
        assert!(Blockers::of(template).is_empty());
    }

    #[pg_test]
    fn rights_are_those_of_the_current_role() {
        assert!(role::may_create_databases());
        Spi::run("CREATE ROLE in_server_nobody; SET LOCAL ROLE in_server_nobody").expect("a role");
        assert!(!role::may_create_databases());
        assert!(!role::owns_database(current_database()));
        Spi::run("RESET ROLE; ALTER ROLE in_server_nobody CREATEDB; SET LOCAL ROLE in_server_nobody")
            .expect("a right");
        assert!(role::may_create_databases() && !role::is_superuser());
    }
}
