"""Steps from one form of the journal's tables to the next, run by alembic when a journal is opened.

A migration never changes an event: the chain of digests goes over them as they were written.
"""
