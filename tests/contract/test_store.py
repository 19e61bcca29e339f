"""Every store keeps the same promises."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from healer.clock import Clock
from healer.ports import Store
from healer.store.embedded import open_store
from healer.testing.store_contract import StoreContract


class TestEmbeddedStoreOnDisk(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
        async with open_store(tmp_path / "series", clock=clock) as store:
            yield store


class TestEmbeddedStoreInMemory(StoreContract):
    @pytest.fixture
    async def store(self, clock: Clock) -> AsyncIterator[Store]:
        async with open_store(None, clock=clock) as store:
            yield store
