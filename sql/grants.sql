-- Rights: PUBLIC may call what checks the caller's rights itself.

GRANT USAGE ON SCHEMA blockwise TO PUBLIC;
GRANT SELECT ON progress TO PUBLIC;
REVOKE ALL ON FUNCTION orphaned_files() FROM PUBLIC;
