"""Run by alembic. The connection, already in a transaction, comes from `healer.journal.migrate`."""

from alembic import context

from healer.journal.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=True)
context.run_migrations()
