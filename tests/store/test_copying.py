"""Everything is copied from one engine to the other and back."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from hookgw import Conflict, DeliveryState, Registration
from hookgw.store import copying
from hookgw.store.postgresql import copy_rows as database_rows
from hookgw.store.sqlite import copy_rows as file_rows
from tests.public.concurrency import Clock
from tests.public.kernel import StartError, StorageUnavailable
from tests.public.postgresql import Server
from tests.public.postgresql import open_store as open_database
from tests.public.records import GATEWAY, Actor, ActorKind, AuditEntry, Holder, Instance, TlsIdentity
from tests.public.store import (
    Append,
    AuditQuery,
    CancelQuery,
    Copied,
    EventQuery,
    LoggedEvent,
    ReplayQuery,
    Store,
    copy_rows,
    open_store,
)
from tests.store.support import (
    AT,
    RULE,
    dead,
    delivered,
    event,
    failed,
    finish,
    ids_of,
    listed,
    pending,
    report,
    seqs_of,
    settle,
    to,
)
from tests.support.postgres import PostgresServer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "hookgw.db"


@pytest.fixture
def server(postgres: PostgresServer) -> Iterator[Server]:
    with postgres.new_schema() as schema:
        yield Server(postgres.url(), schema)


async def fill(store: Store) -> None:
    """Store something of every kind."""
    identity = TlsIdentity("authority", "certificate", "key", "receiver.internal")
    await store.put_instance(
        Instance(name="shop", id="x"),
        Registration(id="reg_1", instance="shop", url="https://a.test", tls=identity),
    )
    await store.put_value("key", {"n": 1})
    await store.record_audit(
        [AuditEntry(at=AT, action="key.create", actor=Actor(kind=ActorKind.HOOKGW), subject="é")]
    )
    await finish(store, "old", "older")
    await store.enforce_retention(before=9e9, limit=2**40, ids_before=0)
    await store.append([Append(event("unheard"), ())])
    await store.append(to("e1", "e2", "e3", data='{"text": "é"}'))
    await store.append(to("foreign", instance="other", registration="reg_2"))
    first, second, _ = await seqs_of(store)
    await settle(store, failed(first, body=b"fixed", head="x-head: é"), dead(second))
    # Behind the third one.
    await store.resend("shop", second, RULE)
    await finish(store, "done")
    await settle(store, *map(delivered, await seqs_of(store, "reg_2:0")))


async def seen(store: Store) -> list[Any]:
    """Everything that a client can see."""
    assert await store.fold_figures({"shop": ["tenant=acme"]})
    day = int(AT) - int(AT) % 86400
    holders = [GATEWAY, *(Holder(*one) for one in (("instance", "shop"), ("tag", "tenant=acme")))]
    reports = [await report(store, name) for name in ("e1", "e2", "e3", "done")]
    return [
        [
            (one.seq, one.event, one.attempts, one.failures, one.next_at, one.body)
            for one in await pending(store)
        ],
        [(one.summary, one.event, one.attempts) for one in reports],
        await listed(store),
        await listed(store, instance="other", state=DeliveryState.DELIVERED),
        await store.load_instances(),
        await store.load_registrations(),
        await store.get_value("key"),
        (await store.list_audit(AuditQuery())).entries,
        await store.pending_counts(),
        await logged(store, EventQuery(instance="shop", is_oldest_first=True)),
        await logged(store, EventQuery(instance="shop", text="é")),
        [await store.read_figures([one], 3600, day, day + 86400) for one in holders],
    ]


async def logged(store: Store, query: EventQuery) -> tuple[float, list[LoggedEvent]]:
    """What a client sees of a log, the unwanted events, too, and where it begins; not a cursor."""
    page = await store.list_events(query)
    return page.begins_at, page.events


def to_database(path: Path, server: Server) -> list[Copied]:
    with file_rows.open_source(path) as rows, database_rows.open_target(server, rows.place) as others:
        return copy_rows(rows, others)


def to_file(server: Server, path: Path) -> list[Copied]:
    with database_rows.open_source(server) as rows, file_rows.open_target(path) as others:
        return copy_rows(rows, others)


async def test_there_and_back(path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (file_rows, database_rows):
        monkeypatch.setattr(module, "PAGE_ROWS", 2)
    async with open_store(path, clock=Clock()) as store:
        await fill(store)
        before = await seen(store)
        cursors = (
            await store.cancel_cursor(),
            (await store.replay_step(ReplayQuery(instance="shop"), {"reg_1": RULE}, None, count=0)).cursor,
        )
    copied = to_database(path, server)
    rows = {part.name: part.rows for part in copied}
    assert rows.pop("figures") >= 9  # more in the next minute
    assert rows == {
        "records": 3,
        "events": 6,
        "ids": 2,
        "deliveries": 5,
        "attempts": 4,
        "bodies": 3,
        "logs": 2,
        "audit": 1,
    }
    back = path.with_name("back.db")
    assert to_file(server, back) == copied
    async with open_database(server, clock=Clock()) as store:
        assert await seen(store) == before
        await check_it_goes_on(store, cursors)
    async with open_store(back, clock=Clock()) as store:
        assert await seen(store) == before
        await check_it_goes_on(store, cursors)


async def check_it_goes_on(store: Store, cursors: tuple[str, str | None]) -> None:
    """New deliveries are behind, known ids are known, and the cursors of jobs are understood."""
    old = await seqs_of(store)
    assert await store.append(to("new", "old", "older", "unheard", "e1")) == [True, *[False] * 4]
    await store.resend("shop", (await report(store, "done")).summary.seq, RULE)
    assert await ids_of(store) == ["e1", "e3", "e2", "new", "done"]
    assert (await seqs_of(store))[3] > max(old)
    query = CancelQuery(instance="shop", registrations=("reg_1",))
    step = await store.cancel_step(query, "off", cursors[0])
    assert step.counts == {"reg_1": 3}
    assert (await store.park_step("reg_1", "off", cursors[0].split("-")[1])).count == 0
    assert (await store.replay_step(ReplayQuery(instance="shop"), {"reg_1": RULE}, cursors[1])).count == 3
    await store.record_audit([AuditEntry(at=AT + 1, action="key.create", actor=Actor(kind=ActorKind.HOOKGW))])


async def test_a_copy_that_was_cut_off_goes_on(
    path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_rows, "PAGE_ROWS", 2)
    async with open_store(path, clock=Clock()) as store:
        await fill(store)
    writes = 0

    def stop(what: str, done: int, total: int) -> None:
        nonlocal writes
        writes += 1
        if writes == 7:
            raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        file_rows.open_source(path) as rows,
        database_rows.open_target(server, rows.place) as others,
    ):
        copy_rows(rows, others, stop)
    with pytest.raises(StartError, match="not finished"):
        async with open_database(server, clock=Clock()):
            pass  # pragma: no cover
    with pytest.raises(Conflict, match="unfinished copy of"), database_rows.open_target(server, "another"):
        pass  # pragma: no cover
    written: list[str] = []
    with file_rows.open_source(path) as rows, database_rows.open_target(server, rows.place) as others:
        copy_rows(rows, others, lambda what, done, total: written.append(f"{what} {done}/{total}"))
    assert written[0] == "copying records 3/3"
    async with open_database(server, clock=Clock()) as store:
        assert await ids_of(store) == ["e1", "e3", "e2"]


async def test_no_hookgw_starts_with_a_file_before_the_copy_to_it_is_whole(path: Path) -> None:
    async with open_store(path, clock=Clock()) as store:
        await fill(store)
    target = path.with_name("target.db")

    async def start() -> None:
        async with open_store(target, clock=Clock()):
            pass  # pragma: no cover

    begin_copy(path, target)
    with pytest.raises(StartError, match=rf"storage copy is writing {target}\.copy, or was killed"):
        await start()
    with file_rows.open_source(path) as rows, file_rows.open_target(target) as others:
        copy_rows(rows, others)
    async with open_store(target, clock=Clock()) as store:
        assert await ids_of(store) == ["e1", "e3", "e2"]


def begin_copy(path: Path, target: Path) -> None:
    """Copy the records alone from one file to another, and stop."""
    with (
        suppress(KeyboardInterrupt),
        file_rows.open_source(path) as rows,
        file_rows.open_target(target) as others,
    ):
        others.write(copying.TABLES[0], rows.read(copying.TABLES[0], None))
        raise KeyboardInterrupt


async def test_a_copy_that_goes_on_holds_the_name_of_its_file(path: Path) -> None:
    async with open_store(path, clock=Clock()) as store:
        await fill(store)
    target = path.with_name("target.db")
    with file_rows.open_source(path) as rows, file_rows.open_target(target) as others:
        target.with_name("target.db.copy").rename(path.with_name("elsewhere.db"))
        with pytest.raises(StartError, match="in use"):
            async with open_store(target, clock=Clock()):
                pass  # pragma: no cover
        path.with_name("elsewhere.db").rename(target.with_name("target.db.copy"))
        copy_rows(rows, others)
    async with open_store(target, clock=Clock()) as store:
        assert await ids_of(store) == ["e1", "e3", "e2"]


def test_the_log_of_a_file_that_was_moved_away_does_not_get_into_the_copy(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.with_name(f"{path.name}-wal").touch(mode=0o600)
    with pytest.raises(Conflict, match="db-wal"), file_rows.open_target(path):
        pass  # pragma: no cover


def test_root_makes_no_file_in_another_user_s_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.parent.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(path.parent, 54_321, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(StartError, match="data belongs to"), file_rows.open_target(path):
        pass  # pragma: no cover
    assert not list(path.parent.iterdir())


async def test_what_is_there_is_not_overwritten(path: Path, server: Server) -> None:
    async with open_store(path, clock=Clock()) as store:
        await store.append(to("e1"))
    async with open_database(server, clock=Clock()) as other:
        await other.append(to("theirs"))
    with pytest.raises(Conflict, match="already"):
        to_database(path, server)
    with pytest.raises(Conflict, match="There is a data file"):
        to_file(server, path)
    with pytest.raises(StorageUnavailable, match="There is no file"):
        to_database(path.with_name("none.db"), server)


async def test_a_storage_in_use_is_not_copied(path: Path, server: Server, postgres: PostgresServer) -> None:
    async with open_store(path, clock=Clock()), open_database(server, clock=Clock()) as store:
        with pytest.raises(StartError, match="in use"):
            to_database(path, server)
        await store.members.join("a", "")
        beats = f"UPDATE {server.schema}.nodes SET heartbeat_at = heartbeat_at + interval '1 h'"
        postgres.execute(beats)  # it sends no other
        with pytest.raises(StartError, match="The node a uses"):
            to_file(server, path.with_name("copy.db"))


def test_two_copies_to_a_database_do_not_run_at_once(server: Server) -> None:
    with database_rows.open_target(server, "here"):
        second = database_rows.open_target(server, "here")
        with pytest.raises(StartError, match=r"Another copy to .* is running"), second:
            pass  # pragma: no cover
    with database_rows.open_target(server, "here"):
        pass


def test_the_next_copy_need_not_wait_until_the_server_has_ended_the_session(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as sessions, monkeypatch.context() as patch:
        close = Connection.close

        def close_later(connection: Connection) -> None:
            sessions.callback(close, connection)

        patch.setattr(Connection, "close", close_later)
        with pytest.raises(KeyboardInterrupt), database_rows.open_target(server, "here"):
            raise KeyboardInterrupt
        with database_rows.open_target(server, "here"):
            pass


def test_a_schema_may_have_any_name(postgres: PostgresServer, server: Server) -> None:
    quoted = Server(postgres.url(), f'{server.schema}"')
    with database_rows.open_target(quoted, "here") as rows:
        assert rows.place == server.place
    postgres.execute(f'DROP SCHEMA "{server.schema}""" CASCADE')


async def test_a_difference_is_noticed(path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store(path, clock=Clock()) as store:
        await fill(store)
    write = database_rows.DatabaseRows.write

    def damage(self: Any, table: copying.Table, rows: list[copying.Row]) -> None:
        write(self, table, [(*row[:-1], b"damaged") if table.name == "bodies" else row for row in rows])

    monkeypatch.setattr(database_rows.DatabaseRows, "write", damage)
    with pytest.raises(StartError, match=r"differs from .*: bodies .*\. Remove what was copied to "):
        to_database(path, server)


async def test_a_copy_of_another_file_is_not_gone_on_with(path: Path) -> None:
    for file in (path, path.with_name("other.db")):
        async with open_store(file, clock=Clock()) as store:
            await store.put_value("file", file.name)
    target = path.with_name("target.db")
    begin_copy(path, target)
    with (
        pytest.raises(StartError, match=rf"differs from .*\. Remove {target}\.copy, and copy again"),
        file_rows.open_source(path.with_name("other.db")) as rows,
        file_rows.open_target(target) as others,
    ):
        copy_rows(rows, others)


async def test_what_a_database_cannot_store_is_replaced(path: Path, server: Server) -> None:
    async with open_store(path, clock=Clock()) as store:
        await store.append(to("nul \0"))
        await settle(store, dead(1, reason="nul \0"))
    to_database(path, server)
    async with open_database(server, clock=Clock()) as store:
        assert await listed(store) == ["nul \ufffd"]
