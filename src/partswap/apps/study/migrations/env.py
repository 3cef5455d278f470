"""Alembic's way in: changes are applied on the connection that `Database.upgrade` gives."""

from alembic import context

from partswap.apps.study.database import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
