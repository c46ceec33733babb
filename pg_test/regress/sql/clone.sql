-- A clone, and what its row in pg_database says.
CREATE DATABASE regress_source;
\c regress_source
CREATE TABLE t (id int PRIMARY KEY, word text);
INSERT INTO t SELECT i, 'word ' || i FROM generate_series(1, 1000) i;
ANALYZE t;
\c regression
CALL blockwise.clone_database('regress_source', 'regress_clone') \gset
SELECT :'strategy' AS strategy, :relations > 200 AS relations, :blocks > 900 AS blocks, :bytes = :blocks * 8192::bigint AS bytes,
       :reflinked_bytes AS reflinked, :wal_bytes BETWEEN 1 AND :bytes AS wal, :elapsed_ms > 0 AS elapsed,
       :database = (SELECT oid FROM pg_database WHERE datname = 'regress_clone') AS database;
SELECT array_agg(key ORDER BY key COLLATE "C") AS details FROM jsonb_object_keys(:'details'::jsonb) key;
\c regress_clone
SELECT count(*), sum(id), min(word), max(word) FROM t;
INSERT INTO t VALUES (1001, 'only here');
\c regression
-- Everything but name, owner and privileges is the source's.
SELECT s.encoding = c.encoding AS encoding, s.datcollate = c.datcollate AS collate, s.datctype = c.datctype AS ctype,
       s.datlocprovider = c.datlocprovider AS provider, s.dattablespace = c.dattablespace AS tablespace,
       s.datcollversion IS NOT DISTINCT FROM c.datcollversion AS collation_version,
       s.datfrozenxid = c.datfrozenxid AS frozen, s.datminmxid = c.datminmxid AS multixact,
       c.datistemplate, c.datallowconn, c.datconnlimit, c.datacl
FROM pg_database s, pg_database c WHERE s.datname = 'regress_source' AND c.datname = 'regress_clone';
-- Every option of this version.
CREATE ROLE regress_owner;
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_space LOCATION '';
CALL blockwise.clone_database('regress_source', 'regress_options', owner => 'regress_owner',
    tablespace => 'regress_space', connection_limit => 7, allow_connections => false, is_template => true,
    on_busy => 'wait', timeout => '10s', wal_compression => 'off', if_exists => 'error', strategy => 'wal_log') \gset
SELECT datdba::regrole, spcname, datconnlimit, datallowconn, datistemplate
FROM pg_database d JOIN pg_tablespace t ON t.oid = dattablespace WHERE datname = 'regress_options';
SELECT :'details'::jsonb ->> 'wal_compression' AS wal_compression;
-- The session's own setting is as it was.
SHOW wal_compression;
-- Replacing: only one's own clone, and only if asked to.
CALL blockwise.clone_database('regress_source', 'regress_clone');
CALL blockwise.clone_database('regress_source', 'regress_clone', if_exists => 'replace') \gset
\c regress_clone
SELECT count(*) FROM t;
\c regression
SELECT name, source_name, cloned_by::regrole, strategy, finished >= started AS finished, bytes > 0 AS bytes
FROM blockwise.clone_log ORDER BY 1;
CALL blockwise.clone_database('regress_source', 'postgres', if_exists => 'replace');
CALL blockwise.clone_database('regress_source', 'regress_source', if_exists => 'replace');
-- A clone of a clone, and names that need quotes.
CALL blockwise.clone_database('regress_clone', 'Regress "Clone" of ''clone''; ü') \gset
SELECT datname FROM pg_database WHERE datname LIKE 'Regress%';
DROP DATABASE "Regress ""Clone"" of 'clone'; ü";
-- Nothing is under way any more.
SELECT count(*) FROM blockwise.progress;
-- From PL/pgSQL the output arguments need variables; a DO block may commit, so it may clone.
DO $$
DECLARE
    strategy text := 'auto'; database oid; relations bigint; blocks bigint; bytes bigint;
    reflinked_bytes bigint; wal_bytes bigint; pause_ms float8; elapsed_ms float8; details jsonb;
BEGIN
    CALL blockwise.clone_database('template0', 'regress_empty', strategy => strategy, database => database,
        relations => relations, blocks => blocks, bytes => bytes, reflinked_bytes => reflinked_bytes,
        wal_bytes => wal_bytes, pause_ms => pause_ms, elapsed_ms => elapsed_ms, details => details);
    RAISE NOTICE 'cloned % with %', (SELECT datname FROM pg_database d WHERE d.oid = database), strategy;
END $$;
SELECT path FROM blockwise.orphaned_files();
UPDATE pg_database SET datistemplate = false WHERE datname = 'regress_options';
DROP DATABASE regress_empty;
DROP DATABASE regress_options;
DROP DATABASE regress_clone;
DROP DATABASE regress_source;
DROP TABLESPACE regress_space;
DROP ROLE regress_owner;
