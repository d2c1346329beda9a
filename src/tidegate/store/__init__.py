"""The core's SQL: one text for SQLite and PostgreSQL, and the two ways to run it."""
