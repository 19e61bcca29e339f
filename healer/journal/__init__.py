"""Every decision, durable, in order, chained by hash: one append-only table.

`open_journal` for a process that writes (to a file one, to PostgreSQL several), `read_journal` for those that look on. What the events mean is
not known here: incidents, audit and replay are readings of them, made elsewhere.
"""

from healer.journal.chain import Verification
from healer.journal.opening import PostgresJournal, SqlJournal, open_journal, open_shared_journal, read_journal
from healer.journal.reading import JournalReader

__all__ = [
    "JournalReader",
    "PostgresJournal",
    "SqlJournal",
    "Verification",
    "open_journal",
    "open_shared_journal",
    "read_journal",
]
