"""Every decision, durable, in order, chained by hash: one append-only table.

`open_journal` for the one process that writes, `read_journal` for those that look on beside it. What the events mean is
not known here: incidents, audit and replay are readings of them, made elsewhere.
"""

from healer.journal.chain import Verification
from healer.journal.opening import SqlJournal, open_journal, read_journal
from healer.journal.reading import JournalReader

__all__ = ["JournalReader", "SqlJournal", "Verification", "open_journal", "read_journal"]
