-- Every refusal that shows in one session: SQLSTATE, message, DETAIL and HINT. Nothing is left behind by any.
CREATE DATABASE regress_source;
CREATE ROLE regress_creator CREATEDB;
CREATE ROLE regress_nobody;
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_space LOCATION '';
SELECT count(*) AS databases FROM pg_database \gset

-- Names.
CALL blockwise.clone_database(NULL, 'x');
\echo :LAST_ERROR_SQLSTATE
CALL blockwise.clone_database('regress_source', NULL);
\echo :LAST_ERROR_SQLSTATE
CALL blockwise.clone_database('regress_source', '');
\echo :LAST_ERROR_SQLSTATE
CALL blockwise.clone_database('regress_source', repeat('ü', 32));
\echo :LAST_ERROR_SQLSTATE
CALL blockwise.clone_database('regress_nowhere', 'x');
\echo :LAST_ERROR_SQLSTATE
CALL blockwise.clone_database('regress_source', 'regression');
\echo :LAST_ERROR_SQLSTATE

-- Values.
CALL blockwise.clone_database('regress_source', 'x', strategy => 'magic');
\echo :LAST_ERROR_SQLSTATE
CALL blockwise.clone_database('regress_source', 'x', if_exists => 'ignore');
\echo :LAST_ERROR_SQLSTATE
CALL blockwise.clone_database('regress_source', 'x', connection_limit => -2);
\echo :LAST_ERROR_SQLSTATE
CALL blockwise.clone_database('regress_source', 'x', timeout => '-1s');
\echo :LAST_ERROR_SQLSTATE
CALL blockwise.clone_database('regress_source', 'x', timeout => '25 days');
\echo :LAST_ERROR_SQLSTATE
CALL blockwise.clone_database('regress_source', 'x', max_pause => '-1ms');
\echo :LAST_ERROR_SQLSTATE
CALL blockwise.clone_database('regress_source', 'x', owner => 'regress_nowhere');
\echo :LAST_ERROR_SQLSTATE
CALL blockwise.clone_database('regress_source', 'x', tablespace => 'regress_nowhere');
\echo :LAST_ERROR_SQLSTATE
CALL blockwise.clone_database('regress_source', 'x', tablespace => 'pg_global');
\echo :LAST_ERROR_SQLSTATE

-- Options of the full signature whose time has not come.
CALL blockwise.clone_database('regress_source', 'x', strategy => 'file_copy');
\echo :LAST_ERROR_SQLSTATE
CALL blockwise.clone_database('regress_source', 'x', strategy => 'fsync');
CALL blockwise.clone_database('regress_source', 'x', on_busy => 'online');
CALL blockwise.clone_database('regress_source', 'x', unlogged => 'empty');
CALL blockwise.clone_database('regress_source', 'x', copy_settings => true);
CALL blockwise.clone_database('regress_source', 'x', copy_privileges => true);
CALL blockwise.clone_database('regress_source', 'x', copy_comment => true);
CALL blockwise.clone_database('regress_source', 'x', allow_during_backup => true);

-- Where it cannot commit.
BEGIN;
CALL blockwise.clone_database('regress_source', 'x');
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
CREATE FUNCTION regress_f() RETURNS void LANGUAGE plpgsql AS
    $$ BEGIN EXECUTE 'CALL blockwise.clone_database(''regress_source'', ''x'')'; END $$;
SELECT regress_f();
\echo :LAST_ERROR_SQLSTATE
DROP FUNCTION regress_f();
SET default_transaction_read_only = on;
CALL blockwise.clone_database('regress_source', 'x');
\echo :LAST_ERROR_SQLSTATE
RESET default_transaction_read_only;

-- Rights, of roles that can call the procedure.
SET ROLE regress_nobody;
CALL blockwise.clone_database('template1', 'x');
\echo :LAST_ERROR_SQLSTATE
SET ROLE regress_creator;
CALL blockwise.clone_database('regress_source', 'x');
\echo :LAST_ERROR_SQLSTATE
-- (The backend's own check, with another text in later versions.)
\set VERBOSITY sqlstate
CALL blockwise.clone_database('template0', 'x', owner => 'regress_nobody');
\set VERBOSITY default
CALL blockwise.clone_database('template0', 'x', tablespace => 'regress_space');
\echo :LAST_ERROR_SQLSTATE
CALL blockwise.clone_database('template0', 'regress_source', if_exists => 'replace');
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM blockwise.orphaned_files();
\echo :LAST_ERROR_SQLSTATE
RESET ROLE;
GRANT EXECUTE ON FUNCTION blockwise.orphaned_files() TO regress_creator;
SET ROLE regress_creator;
SELECT * FROM blockwise.orphaned_files();
\echo :LAST_ERROR_SQLSTATE
RESET ROLE;
REVOKE EXECUTE ON FUNCTION blockwise.orphaned_files() FROM regress_creator;

-- Sources that cannot be copied.
\c regress_source
CREATE TABLE elsewhere (i int) TABLESPACE regress_space;
\c regression
CALL blockwise.clone_database('regress_source', 'x', tablespace => 'regress_space');
\echo :LAST_ERROR_SQLSTATE
UPDATE pg_database SET datcollversion = '1.0' WHERE datname = 'regress_source';
CALL blockwise.clone_database('regress_source', 'x');
\echo :LAST_ERROR_SQLSTATE
UPDATE pg_database SET datcollversion = NULL, datcollate = 'xx_XX' WHERE datname = 'regress_source';
CALL blockwise.clone_database('regress_source', 'x');
\echo :LAST_ERROR_SQLSTATE
UPDATE pg_database SET datcollate = 'C', datconnlimit = -2 WHERE datname = 'regress_source';
CALL blockwise.clone_database('regress_source', 'x');
\echo :LAST_ERROR_SQLSTATE

SELECT count(*) - :databases AS databases_left_behind FROM pg_database;
SELECT path FROM blockwise.orphaned_files();
SELECT count(*) AS log_rows FROM blockwise.clone_log WHERE finished IS NULL;
DROP DATABASE regress_source;
DROP TABLESPACE regress_space;
DROP ROLE regress_creator;
DROP ROLE regress_nobody;
