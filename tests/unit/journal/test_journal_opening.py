"""One writer, any number of readers, tables brought up to date."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import alembic.command
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from healer.clock import SystemClock
from healer.errors import JournalError, JournalInUse
from healer.journal import open_journal, read_journal, schema
from healer.journal.chain import GENESIS
from healer.journal.engine import on_connection
from healer.sim import time as sim_time
from healer.testing.journal_contract import progress

OPEN_AND_HOLD = """
import asyncio, sys
from healer.clock import SystemClock
from healer.journal import open_journal

async def main():
    async with open_journal(sys.argv[1], clock=SystemClock()):
        print("alembic" in sys.modules, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


def hold(path: Path) -> subprocess.Popen[str]:
    """Another process that has the journal open until its input ends. Returns when it has it."""
    return subprocess.Popen(
        [sys.executable, "-c", OPEN_AND_HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def test_a_second_process_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with hold(path) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(JournalInUse, match=rf"process {other.pid} on {os.uname().nodename} since 20"):
            async with open_journal(path, clock=SystemClock()):
                pass
        other.communicate("")
    async with open_journal(path, clock=SystemClock()) as journal:
        assert len(await journal.append([progress("mine now")])) == 1


async def test_a_journal_held_by_a_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with hold(path) as other:
        assert other.stdout is not None
        other.stdout.readline()
        other.kill()
        other.communicate()
    async with open_journal(path, clock=SystemClock()) as journal:
        assert len(await journal.append([progress("mine now")])) == 1


def test_neither_a_new_nor_a_current_journal_needs_the_migration_tool(tmp_path: Path) -> None:
    said = []
    for _ in range(2):
        with hold(tmp_path / "journal.db") as process:
            said.append(process.communicate("")[0].strip())
    assert said == ["False", "False"]


async def test_a_second_opening_in_the_same_process_is_refused(tmp_path: Path) -> None:
    async with open_journal(tmp_path / "journal.db", clock=SystemClock()):
        with pytest.raises(JournalInUse, match=f"process {os.getpid()}"):
            async with open_journal(tmp_path / "journal.db", clock=SystemClock()):
                pass


async def test_a_reader_beside_the_writer_sees_what_is_committed(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with open_journal(path, clock=SystemClock()) as journal, read_journal(path) as reader:
        assert [r async for r in reader.read()] == []
        written = await journal.append([progress("a"), progress("b")])
        assert [r async for r in reader.read()] == list(written)
        async with asyncio.TaskGroup() as group:
            for n in range(30):
                group.create_task(journal.append([progress(str(n))] * 50))
            checks = [group.create_task(reader.verify()) for _ in range(10)]
        assert all(check.result().ok for check in checks)


async def test_a_reader_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with open_journal(path, clock=SystemClock()), read_journal(path) as reader:
        with pytest.raises(sa.exc.OperationalError, match="readonly"):
            await on_connection(reader._engine, lambda connection: connection.exec_driver_sql("DELETE FROM newest"))


async def test_odd_characters_in_the_path_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "a b%20ä?x=#1" / "j&o.db"
    async with open_journal(path, clock=SystemClock()) as journal:
        await journal.append([progress("a")])
    async with read_journal(path) as reader:
        assert (await reader.verify()).events == 1
    assert {name.removesuffix("-wal").removesuffix("-shm") for name in names(path.parent)} == {
        "j&o.db",
        "j&o.db.lock",
    }


async def test_files_are_for_this_user_only(tmp_path: Path) -> None:
    async with open_journal(tmp_path / "data" / "journal.db", clock=SystemClock()) as journal:
        await journal.append([progress("a")])
        found = {p.name: stat.S_IMODE(p.stat().st_mode) & 0o077 for p in (tmp_path / "data").iterdir()}
    assert found == {f"journal.db{end}": 0 for end in ("", "-wal", "-shm", ".lock")}


async def test_the_journal_is_synced_at_every_commit(tmp_path: Path) -> None:
    async with open_journal(tmp_path / "journal.db", clock=SystemClock()) as journal:
        await journal.append([progress("a")])
        connection = journal._writer._connection
        assert connection is not None
        assert await asyncio.to_thread(lambda: connection.exec_driver_sql("PRAGMA synchronous").scalar_one()) == 2
        assert await asyncio.to_thread(lambda: connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()) == "wal"
        await asyncio.to_thread(connection.rollback)


async def test_a_missing_journal_is_an_error_for_a_reader(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no such file"):
        async with read_journal(tmp_path / "journal.db"):
            pass
    assert not names(tmp_path)


async def test_a_file_that_is_no_journal_is_named(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(b"apiVersion: v1\n" * 500)
    with pytest.raises(JournalError, match=r"journal\.db'.*not a database"):
        async with open_journal(path, clock=SystemClock()):
            pass
    with pytest.raises(JournalError, match=r"journal\.db'.*not a database"):
        async with read_journal(path):
            pass


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(JournalError, match=r"data/journal\.db'.*writable"):
        async with open_journal(tmp_path / "data" / "journal.db", clock=SystemClock()):
            pass


async def test_another_database_is_refused_with_the_mend() -> None:
    with pytest.raises(JournalError, match=r"mysql:.*a file, or .*postgresql://") as caught:
        async with open_journal("mysql://u:secret@h/db", clock=SystemClock()):
            pass
    assert "secret" not in str(caught.value)


async def test_a_journal_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with open_journal(path, clock=SystemClock()):
        pass
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()
    with pytest.raises(JournalError, match="newer version"):
        async with open_journal(path, clock=SystemClock()):
            pass
    with pytest.raises(JournalError, match="newer version"):
        async with read_journal(path):
            pass


async def test_a_reader_of_an_older_journal_is_told_how_to_bring_it_up_to_date(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "journal.db").close()
    (tmp_path / "journal.db").touch()
    with pytest.raises(JournalError, match="healer run"):
        async with read_journal(tmp_path / "journal.db"):
            pass


async def test_an_interrupted_creation_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("pulled the plug")

    path = tmp_path / "journal.db"
    with monkeypatch.context() as patch:
        patch.setattr(schema.VERSION, "create", fail)
        with pytest.raises(RuntimeError, match="pulled the plug"):
            async with open_journal(path, clock=SystemClock()):
                pass
    assert tables(path) == {}
    async with open_journal(path, clock=SystemClock()) as journal:
        assert (await journal.append([progress("a")]))[0].seq == 1


def tables(path: Path) -> dict[str, str]:
    """The form of a journal: what each table, index and trigger was made with, however it was spaced."""
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
    connection.close()
    return {name: "".join((sql or "").split()) for name, sql in found}


def migrated(path: Path) -> dict[str, str]:
    """The form of a journal that has gone through every migration."""
    config = Config()
    config.set_main_option("script_location", "healer.journal:migrations")
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_current_head() == schema.HEAD
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.NullPool)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        alembic.command.upgrade(config, "head")
        newest = connection.execute(sa.select(schema.NEWEST)).one()
        assert tuple(newest) == (1, 0, GENESIS)
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
    return tables(path)


async def test_migrations_make_the_very_tables_that_a_new_journal_has(tmp_path: Path) -> None:
    async with open_journal(tmp_path / "new.db", clock=SystemClock()):
        pass
    assert tables(tmp_path / "new.db") == migrated(tmp_path / "old.db")


async def test_what_the_caller_raises_passes_as_it_is_after_all_was_written(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"

    async def body() -> None:
        async with open_journal(path, clock=SystemClock()) as journal:
            await journal.append([progress("a")])
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await body()
    async with read_journal(path) as reader:
        assert (await reader.verify()).events == 1


def test_virtual_time_stands_still_while_the_disk_works(tmp_path: Path) -> None:
    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            day = group.create_task(asyncio.sleep(86_400))
            async with open_journal(tmp_path / "journal.db", clock=SystemClock()) as journal:
                for n in range(20):
                    await journal.append([progress(str(n))])
                assert (await journal.verify()).events == 20
                assert len([r async for r in journal.read()]) == 20
            worked = loop.time()
            await day
        return worked, loop.time()

    assert sim_time.run(main) == (0.0, 86_400.0)
