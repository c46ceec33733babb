-- The clones that are being made now.

CREATE VIEW progress AS
SELECT p.pid,
       s.datname AS source,
       t.datname AS target,
       p.phase,
       p.relations_done,
       p.relations_total,
       p.bytes_done,
       p.bytes_total,
       p.started
FROM progress_entries() AS p
LEFT JOIN pg_catalog.pg_database AS s ON s.oid = p.source
LEFT JOIN pg_catalog.pg_database AS t ON t.oid = p.target;

COMMENT ON VIEW progress IS 'clones under way: one''s own, and all of them for members of pg_monitor';
