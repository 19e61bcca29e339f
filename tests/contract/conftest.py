"""What contract tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres import Postgres
from tests.postgres import postgres as a_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for all tests of this process; each makes a database of its own."""
    with a_server() as server:
        yield server
