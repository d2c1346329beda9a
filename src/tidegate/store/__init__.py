"""The database engine: one text of SQL for SQLite and PostgreSQL, and the two ways to run it."""
