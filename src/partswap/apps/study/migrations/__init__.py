"""Changes of the database from version to version, applied by Alembic when a study is served."""
