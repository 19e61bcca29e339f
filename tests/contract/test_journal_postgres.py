"""PostgreSQL goes away, comes back, comes back elsewhere; replicas stop in the middle of a write."""

from __future__ import annotations

import asyncio
import functools
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import alembic.command
import psycopg
import pytest
import sqlalchemy as sa
from alembic.config import Config

from healer import telemetry
from healer.clock import SystemClock
from healer.errors import Deposed, JournalError
from healer.journal import open_journal, open_shared_journal, postgres, read_journal, schema
from healer.journal.sharing import SharedWriter
from healer.testing.journal_contract import progress
from tests.healers import until
from tests.postgres import Postgres
from tests.postgres import postgres as a_server


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.new_database()


@pytest.fixture
def own() -> Iterator[Postgres]:
    """A server that the test may stop."""
    with a_server(durable=True) as server:
        yield server


async def test_a_journal_is_opened_by_its_url_and_read_beside_the_writer(url: str) -> None:
    async with open_journal(url, clock=SystemClock()) as journal, read_journal(url) as reader:
        written = await journal.append([progress("a \x00 ä"), progress("b")])
        assert [r async for r in reader.read()] == list(written)
        assert (await reader.verify()).ok


async def test_replicas_that_start_together_make_the_tables_once(url: str) -> None:
    async def write(name: str) -> None:
        async with open_shared_journal(url) as journal:
            await journal.append([progress(name)])

    async with asyncio.TaskGroup() as group:
        for n in range(4):
            group.create_task(write(str(n)))
    async with read_journal(url) as reader:
        assert (await reader.verify()).events == 4


async def test_a_journal_of_the_first_version_is_brought_up_to_date(postgres: Postgres, url: str) -> None:
    config = Config()
    config.set_main_option("script_location", "healer.journal:migrations")
    config.set_main_option("path_separator", "os")

    def old() -> None:
        engine = sa.create_engine(f"postgresql+psycopg{url.removeprefix('postgresql')}", poolclass=sa.NullPool)
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            alembic.command.upgrade(config, "0001")

    await asyncio.to_thread(old)
    with pytest.raises(JournalError, match="healer run"):
        async with read_journal(url):
            pass
    new = postgres.new_database()
    for place in (url, new):
        async with open_shared_journal(place) as journal:
            await journal.lead(1)
            await journal.append([progress("a")], term=1)
    assert form(postgres, url) == form(postgres, new)


def form(server: Postgres, url: str) -> list[Any]:
    """Columns, constraints and triggers of every table."""
    return [
        *server.run(
            "SELECT table_name, column_name, data_type, is_nullable, character_maximum_length "
            "FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2",
            url,
        ),
        *server.run("SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conname ~ '_' ORDER BY 1", url),
        *server.run("SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger ORDER BY 1", url),
        *server.run("SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1", url),
    ]


@pytest.mark.parametrize("deed", ["UPDATE events SET kind = 'x'", "DELETE FROM events", "TRUNCATE events"])
async def test_a_slip_of_the_hand_changes_no_event(postgres: Postgres, url: str, deed: str) -> None:
    async with open_shared_journal(url) as journal:
        await journal.append([progress("a")])
        with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
            await asyncio.to_thread(postgres.run, deed, url)
        assert (await journal.verify()).events == 1


async def test_while_it_is_away_nothing_is_acknowledged_and_afterwards_it_goes_on_by_itself(own: Postgres) -> None:
    async with open_shared_journal(own.new_database()) as journal:
        await journal.append([progress("before")])
        own.stop()
        for _ in range(2):
            with pytest.raises(JournalError, match="writing 1 events"):
                await journal.append([progress("meanwhile")])
            with pytest.raises(JournalError, match="reading the journal"):
                [r async for r in journal.read()]
        assert telemetry.JOURNAL_WRITABLE._value.get() == 0
        await asyncio.to_thread(own.start)
        assert [r.seq for r in await journal.append([progress("after")])] == [2]
        assert telemetry.JOURNAL_WRITABLE._value.get() == 1
        assert [r.seq async for r in journal.read()] == [1, 2]
        assert (await journal.verify()).ok


async def test_what_was_acknowledged_survives_its_crash(own: Postgres) -> None:
    acknowledged: dict[int, str] = {}
    async with open_shared_journal(own.new_database()) as journal:

        async def write() -> None:
            while True:
                try:
                    for recorded in await journal.append([progress("x")] * 3):
                        acknowledged[recorded.seq] = recorded.digest
                except JournalError:
                    await asyncio.sleep(0.02)

        async with asyncio.TaskGroup() as group:
            writers = [group.create_task(write()) for _ in range(8)]
            for crash in range(3):
                goal = len(acknowledged) + 100
                await until("events are written", functools.partial(has, acknowledged, goal))
                await asyncio.to_thread(own.stop, signal.SIGQUIT if crash else signal.SIGINT)
                await asyncio.to_thread(own.start)
            for writer in writers:
                writer.cancel()
        stored = {r.seq: r.digest async for r in journal.read()}
        assert {seq: stored.get(seq) for seq in acknowledged} == acknowledged
        assert (await journal.verify()).ok


def has(found: dict[int, str], so_many: int) -> bool:
    return len(found) >= so_many


async def test_of_several_hosts_the_one_that_takes_writes_is_used(own: Postgres) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        hosts = f"127.0.0.1:{nobody.getsockname()[1]},127.0.0.1:{own.port}"
        url = own.url("postgres", hosts=hosts)
        async with open_shared_journal(url) as journal:
            assert [r.seq for r in await journal.append([progress("a")])] == [1]


async def test_after_a_failover_the_next_address_is_used(own: Postgres) -> None:
    """Two addresses, of which one forwards to the database: a failover moves that from the first to the second."""
    forwards = [await forwarding(own.port) for _ in range(2)]
    hosts = ",".join(f"127.0.0.1:{port}" for port, _, _ in forwards)
    try:
        await forwards[1][2]()
        async with open_shared_journal(own.url("postgres", hosts=hosts)) as journal:
            await journal.append([progress("over the first")])
            await forwards[0][2]()
            await forwards[1][1]()
            found = await until("the second address is used", lambda: appended(journal, "over the second"))
            assert found == 2
    finally:
        for _, _, down in forwards:
            await down()


async def appended(journal: Any, text: str) -> int:
    try:
        return int((await journal.append([progress(text)]))[0].seq)
    except JournalError:
        return 0


async def forwarding(port: int) -> tuple[int, Callable[[], Any], Callable[[], Any]]:
    """An address before `port`: its number, how to bring it up, how to take it down with every connection."""
    open_: set[asyncio.StreamWriter] = set()
    servers: list[asyncio.Server] = []

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        open_.update((writer, back))

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                target.write(data)
            target.close()

        async with asyncio.TaskGroup() as group:
            group.create_task(copy(reader, back))
            group.create_task(copy(there, writer))

    async def up() -> None:
        servers.append(await asyncio.start_server(carry, "127.0.0.1", number))

    async def down() -> None:
        for server in servers:
            server.close()
        servers.clear()
        for writer in open_:
            writer.transport.abort()
        open_.clear()

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = int(probe.getsockname()[1])
    await up()
    return number, up, down


async def test_a_replica_that_stops_in_the_middle_of_a_write_does_not_hold_up_the_others(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection is still there, and so is its lock, until the server ends the transaction that does nothing."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with open_shared_journal(url) as journal, open_shared_journal(url) as other:
        await journal.lead(1)
        await journal.append([progress("by the first")], term=1)
        connection = journal._writer._connection
        assert connection is not None

        def hold() -> None:
            connection.execute(sa.select(schema.NEWEST).with_for_update())
            loop.call_soon_threadsafe(stopped.set)

        await journal._writer._in_thread(hold)
        await stopped.wait()
        began = loop.time()
        await other.lead(2)
        assert loop.time() - began < 4
        with pytest.raises(JournalError):
            await journal.append([progress("waking up")], term=1)
        with pytest.raises(Deposed):
            await journal.append([progress("again")], term=1)


async def test_a_write_that_waits_in_line_while_another_begins_to_lead_is_refused(postgres: Postgres, url: str) -> None:
    """What it read before it had to wait is old by then."""
    async with open_shared_journal(url) as journal:
        await journal.lead(1)
        await journal.append([progress("by the first")], term=1)
        with psycopg.connect(url) as another:
            another.execute("SELECT * FROM newest FOR UPDATE")
            async with asyncio.TaskGroup() as group:
                late = group.create_task(deposed(journal))
                await until("it waits", lambda: postgres.run(WAITING, url)[0][0])
                another.execute("UPDATE leader SET term = 2")
                another.commit()
        assert late.result()
        assert [r.seq async for r in journal.read()] == [1]


WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


async def deposed(journal: Any) -> bool:
    try:
        await journal.append([progress("too late")], term=1)
    except Deposed:
        return True
    return False


APPEND = """
import asyncio, sys
from healer.errors import JournalError
from healer.journal import open_shared_journal
from healer.testing.journal_contract import progress

async def main():
    async with open_shared_journal(sys.argv[1]) as journal:
        print("ready", flush=True)
        while True:
            try:
                await journal.append([progress("x")] * 20)
            except JournalError:
                await asyncio.sleep(0.01)

asyncio.run(main())
"""


async def test_a_process_that_is_stopped_at_any_moment_holds_up_nobody_for_long(url: str) -> None:
    """Also between two messages of one statement, or with half a transaction on its way."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", APPEND, url, stdout=asyncio.subprocess.PIPE)
    loop = asyncio.get_running_loop()
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        async with open_shared_journal(url) as journal:
            for _ in range(15):
                process.send_signal(signal.SIGSTOP)
                began = loop.time()
                await journal.append([progress("y")])
                assert loop.time() - began < 3.5
                process.send_signal(signal.SIGCONT)
                await journal.append([progress("z")])
            assert (await journal.verify()).ok
    finally:
        process.kill()
        await process.wait()


async def test_a_commit_whose_answer_was_lost_counts_when_it_is_there(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = SharedWriter._write_in_line

    def loses_the_answer(self: SharedWriter, *args: Any) -> None:
        write(self, *args)
        raise sa.exc.OperationalError("COMMIT", {}, Exception("server closed the connection"))

    async with open_shared_journal(url) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(SharedWriter, "_write_in_line", loses_the_answer)
            assert [r.seq for r in await journal.append([progress("a"), progress("b")])] == [1, 2]
        assert [r.seq for r in await journal.append([progress("c")])] == [3]
        assert (await journal.verify()).events == 3


async def test_a_database_that_is_not_there_is_named_without_the_password(own: Postgres, tmp_path: Path) -> None:
    url = own.url("nowhere").replace("healer@", "healer:secret@")
    for opened in (open_journal(url, clock=SystemClock()), read_journal(url)):
        with pytest.raises(JournalError, match=r"'nowhere' at 127\.0\.0\.1") as caught:
            async with opened:
                pass
        assert "secret" not in str(caught.value)


def test_a_url_that_cannot_be_read_is_said_without_showing_it() -> None:
    with pytest.raises(JournalError, match="postgresql://user:password@host") as caught:
        postgres.writing_engine("postgresql://u:secret@h:port:port/x?y")
    assert "secret" not in str(caught.value)
