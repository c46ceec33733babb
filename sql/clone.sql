-- Cloning a database.

CREATE PROCEDURE clone_database(
    source text,
    target text,
    owner text DEFAULT NULL,
    tablespace text DEFAULT NULL,
    connection_limit int DEFAULT NULL,
    allow_connections bool DEFAULT NULL,
    is_template bool DEFAULT NULL,
    copy_settings bool DEFAULT false,
    copy_privileges bool DEFAULT false,
    copy_comment bool DEFAULT false,
    if_exists text DEFAULT 'error',
    on_busy text DEFAULT 'error',
    max_pause interval DEFAULT '500ms',
    timeout interval DEFAULT '5min',
    unlogged text DEFAULT 'copy',
    wal_compression text DEFAULT 'auto',
    allow_during_backup bool DEFAULT false,
    log_progress bool DEFAULT false,
    INOUT strategy text DEFAULT 'auto',
    INOUT database oid DEFAULT NULL,
    INOUT relations bigint DEFAULT NULL,
    INOUT blocks bigint DEFAULT NULL,
    INOUT bytes bigint DEFAULT NULL,
    INOUT reflinked_bytes bigint DEFAULT NULL,
    INOUT wal_bytes bigint DEFAULT NULL,
    INOUT pause_ms float8 DEFAULT NULL,
    INOUT elapsed_ms float8 DEFAULT NULL,
    INOUT details jsonb DEFAULT NULL
) LANGUAGE c AS 'MODULE_PATHNAME', 'blockwise_clone_database';

COMMENT ON PROCEDURE clone_database IS 'makes a copy of a database, block by block';

-- Which databases are clones. Written by clone_database itself; nobody else needs a right on it.
CREATE TABLE clone_log (
    database oid NOT NULL,
    name text NOT NULL,
    source oid NOT NULL,
    source_name text NOT NULL,
    cloned_by oid NOT NULL,
    started timestamptz NOT NULL,
    finished timestamptz,
    strategy text,
    bytes bigint
);

CREATE INDEX ON clone_log (database);

COMMENT ON TABLE clone_log IS 'the clones that were made from this database''s session, finished or under way';
