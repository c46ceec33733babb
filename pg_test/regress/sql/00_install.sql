-- The extension: what it contains, and who may use it.
CREATE EXTENSION blockwise;
SELECT extname, extrelocatable, nspname
FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'blockwise';
SELECT pg_describe_object(classid, objid, 0) AS object
FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
  AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'blockwise')
  AND classid IN ('pg_class'::regclass, 'pg_proc'::regclass)
ORDER BY pg_describe_object(classid, objid, 0) COLLATE "C";
-- The whole signature, from the first version on.
SELECT unnest(proargmodes) AS mode, unnest(proargnames) AS argument
FROM pg_proc WHERE proname = 'clone_database';
SELECT pg_get_expr(proargdefaults, 0) AS defaults FROM pg_proc WHERE proname = 'clone_database';
-- PUBLIC may call what checks rights itself.
CREATE ROLE regress_anybody;
SELECT p.proname, has_function_privilege('regress_anybody', p.oid, 'execute') AS anybody_may_call
FROM pg_proc p WHERE pronamespace = 'blockwise'::regnamespace ORDER BY 1;
SELECT c.relname, has_table_privilege('regress_anybody', c.oid, 'select') AS anybody_may_read,
       has_table_privilege('regress_anybody', c.oid, 'insert, update, delete') AS anybody_may_write
FROM pg_class c WHERE relnamespace = 'blockwise'::regnamespace AND relkind IN ('r', 'v') ORDER BY 1;
DROP ROLE regress_anybody;
