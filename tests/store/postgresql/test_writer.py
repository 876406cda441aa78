"""Commits that meet other transactions, restarts of the server, and answers that are lost."""

import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hookgw import Invalid
from tests.public.concurrency import Clock
from tests.public.kernel import StorageUnavailable
from tests.public.postgresql import Feed, PostgresqlStore, Server, Transaction, open_store
from tests.store.support import Listener, ids_of, pending_of, refusal_of, seqs_of, to
from tests.store.support import delivered as as_delivered
from tests.support.postgres import PostgresServer
from tests.support.stores import commits_of, turn_of
from tests.support.waits import until


@pytest.fixture
async def store(database: Server) -> AsyncIterator[PostgresqlStore]:
    async with open_store(database, clock=Clock()) as store:
        yield store


@pytest.fixture
async def patient_store(database: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PostgresqlStore]:
    """It waits for a commit during which a busy machine restarts the server."""
    for module in ("server", "store"):
        monkeypatch.setattr(f"hookgw.store.postgresql.{module}.WRITE_PATIENCE", 60.0)
    async with open_store(database, clock=Clock()) as store:
        yield store


async def test_a_commit_that_lost_against_another_is_repeated(store: PostgresqlStore) -> None:
    tries = 0

    def change(transaction: Transaction) -> int:
        nonlocal tries
        tries += 1
        transaction.connection.execute("INSERT INTO probe VALUES (%s, 0)", (tries,))
        if tries < 3:
            raise psycopg.errors.DeadlockDetected("deadlock detected")
        return tries

    assert await commits_of(store).call(change) == 3


async def test_it_is_not_repeated_for_ever(store: PostgresqlStore) -> None:
    def lose(_: Transaction) -> None:
        raise psycopg.errors.SerializationFailure("could not serialize")

    with pytest.raises(StorageUnavailable, match="could not serialize"):
        await commits_of(store).call(lose)


async def test_a_statement_whose_answer_nobody_reads_undoes_its_own_function_if_it_fails(
    store: PostgresqlStore,
) -> None:
    def write(number: int, *, fails: bool) -> Callable[[Transaction], None]:
        def run(transaction: Transaction) -> None:
            transaction.connection.execute("INSERT INTO probe VALUES (%s, 0)", (number,))
            if fails:
                transaction.connection.execute("SELECT 1 / 0")

        return run

    async def refused() -> None:
        with pytest.raises(psycopg.errors.DivisionByZero):
            await commits_of(store).call(write(8, fails=True))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(commits_of(store).call, write(7, fails=False))
        nursery.start_soon(refused)
        nursery.start_soon(commits_of(store).call, write(9, fails=False))

    def written(transaction: Transaction) -> list[int]:
        found = transaction.connection.execute("SELECT number FROM probe WHERE number IN (7, 8, 9)")
        return sorted(number for (number,) in found)

    assert await commits_of(store).call(written) == [7, 9]


@contextmanager
def trigger_of_the_operator(postgres: PostgresServer, schema: str, body: str) -> Iterator[None]:
    """Let a function run with each new delivery and each outcome, for the length of a block."""
    postgres.execute(
        f"""CREATE FUNCTION public.failing() RETURNS trigger LANGUAGE plpgsql
            AS $$BEGIN {body}; RETURN NULL; END$$;
        CREATE TRIGGER failing AFTER INSERT OR UPDATE ON {schema}.deliveries
            FOR EACH ROW EXECUTE FUNCTION public.failing()"""
    )
    try:
        yield
    finally:
        postgres.execute("DROP FUNCTION public.failing() CASCADE")


@pytest.mark.parametrize(
    "body",
    [
        "INSERT INTO rows_that_it_does_not_find VALUES (NEW.seq)",
        "CREATE TEMPORARY TABLE rows (a int NOT NULL); INSERT INTO rows VALUES (NULL)",
        "PERFORM 1 / 0",
    ],
)
async def test_a_trigger_of_the_operator_that_fails_is_no_bug_and_no_bad_event(
    store: PostgresqlStore, postgres: PostgresServer, body: str
) -> None:
    """Producers try again after 503, and hookgw goes on when the trigger is repaired."""
    where = r"\(\w{5}, in PL/pgSQL function public\.failing\(\) line 1 at [\w ]+\)\.$"
    with (
        trigger_of_the_operator(postgres, store.server.schema, body),
        pytest.raises(StorageUnavailable, match=where),
    ):
        await store.append(to("e1"))
    await until(lambda: refusal_of(store) is None)
    assert await store.append(to("e1")) == [True]
    assert await ids_of(store) == ["e1"]


async def test_a_commit_after_a_restart_of_the_server(
    store: PostgresqlStore, postgres: PostgresServer
) -> None:
    await store.append(to("e1"))
    postgres.execute(f"SELECT pg_terminate_backend({store.writer.backend}, 5000)")
    assert await store.append(to("e2")) == [True]
    assert await ids_of(store) == ["e1", "e2"]


async def test_a_commit_after_an_operator_has_changed_the_type_of_a_column(
    store: PostgresqlStore, postgres: PostgresServer
) -> None:
    async def go_on(number: int) -> None:
        event = f"e{number}"
        assert await store.append(to(event)) == [True]
        await store.put_value(event, "1")
        assert await store.get_value(event) == "1"
        assert await ids_of(store) == [event]
        store.settle_nowait(as_delivered((await seqs_of(store))[0]))
        await store.flush()
        assert await ids_of(store) == []

    for number in range(10):  # the driver prepares what comes often
        await go_on(number)
    for column in ("events ALTER id", "deliveries ALTER registration", "deliveries ALTER lane"):
        postgres.execute(f"ALTER TABLE {store.server.schema}.{column} TYPE varchar(9999)")
    await go_on(10)


@pytest.mark.parametrize("is_done", [True, False])
async def test_the_answer_to_a_commit_is_lost(
    store: PostgresqlStore, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    listener = Listener()
    store.subscribe(listener)
    usual = psycopg.Connection.execute
    lost: list[int] = []

    def execute(self: psycopg.Connection, query: Any, *arguments: Any, **options: Any) -> Any:
        if query == "COMMIT" and not lost:
            lost.append(self.info.backend_pid)
            if is_done:
                usual(self, query)
                with self.pipeline():  # whatever waits is sent, and answered
                    pass
                assert postgres.execute(f"SELECT count(*) FROM {store.server.schema}.events") == [(1,)]
            postgres.execute(f"SELECT pg_terminate_backend({self.info.backend_pid}, 5000)")
            return usual(self, "SELECT 1")
        return usual(self, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    assert await store.append(to("e1")) == [True]
    assert lost
    assert await ids_of(store) == ["e1"]
    assert listener.take() == [("appended", ["e1"])]


async def test_a_server_that_ends_in_a_commit_has_done_it(
    store: PostgresqlStore, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so, and then that it ends; the driver calls the connection open until it has read its end."""
    await store.append(to("e1"))
    usual = psycopg.Connection.execute
    ends: list[socket.socket] = []

    def execute(self: psycopg.Connection, query: Any, *arguments: Any, **options: Any) -> Any:
        answered = usual(self, query, *arguments, **options)
        if query == "COMMIT" and not ends:
            while postgres.execute(f"SELECT count(*) FROM {store.server.schema}.events") != [(2,)]:
                time.sleep(0.01)
            postgres.execute(f"SELECT pg_terminate_backend({self.info.backend_pid}, 5000)")
            self.pgconn.consume_input()
            ends.extend(socket.socketpair())
            os.dup2(ends[0].fileno(), self.fileno())
        return answered

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    assert await store.append(to("e2")) == [True]
    assert await ids_of(store) == ["e1", "e2"]
    for end in ends:
        end.close()


@pytest.mark.parametrize("does_other", ["settles", "settles and removes", "stores the event", "nothing"])
async def test_what_another_node_has_done_is_no_proof_of_a_commit(
    store: PostgresqlStore, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, does_other: str
) -> None:
    """A node is frozen in a commit, and another one goes on with its lanes meanwhile."""
    await store.append(to("e0"))
    [first] = await seqs_of(store)
    schema = store.server.schema
    usual = psycopg.Connection.execute
    lost: list[int] = []

    def execute(self: psycopg.Connection, query: Any, *arguments: Any, **options: Any) -> Any:
        if query == "COMMIT" and not lost:
            lost.append(self.info.backend_pid)
            postgres.execute(f"SELECT pg_terminate_backend({self.info.backend_pid}, 5000)")
            if "settles" in does_other:
                postgres.execute(f"UPDATE {schema}.deliveries SET state = 'delivered' WHERE seq = {first}")
            if "removes" in does_other:
                postgres.execute(f"DELETE FROM {schema}.deliveries WHERE seq = {first}")
            if "stores" in does_other:
                # Under the number that a crashed server has forgotten, for another registration.
                postgres.execute(
                    f"""INSERT INTO {schema}.events SELECT seq + 1, instance, 'e1', kind, time, accepted_at,
                        data, sender, server_url, 0 FROM {schema}.events"""
                )
        return usual(self, query, *arguments, **options)

    async def append() -> None:
        # Another node has stored the event: this one says so, and does not count it as its own.
        assert await store.append(to("e1")) == ["stores" not in does_other]

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    async with trio.open_nursery() as nursery:
        store.settle_nowait(as_delivered(first))
        nursery.start_soon(append)
    assert lost
    assert await ids_of(store) == ([] if "stores" in does_other else ["e1"])


@pytest.mark.parametrize("has_preset_role", [False, True])
async def test_a_commit_that_the_server_has_not_ended_is_not_done_beside_another(
    has_preset_role: bool, database: Server, acting: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way to the server is lost while the last words of a commit are on it: the server waits for them."""
    usual = psycopg.Connection.execute
    former: list[psycopg.Connection] = []

    def execute(self: psycopg.Connection, query: Any, *arguments: Any, **options: Any) -> Any:
        if query == "COMMIT" and not former:
            former.append(self)
            # In the driver's eyes the connection is closed; the server's end is open.
            monkeypatch.setattr(type(self), "closed", property(lambda one: one is self))
            raise psycopg.OperationalError("the connection is lost")
        return usual(self, query, *arguments, **options)

    def change(transaction: Transaction) -> None:
        transaction.connection.execute("INSERT INTO probe VALUES (1000, 1)")

    async with open_store(acting[0] if has_preset_role else database, clock=Clock()) as store:
        await store.append(to("e0"))
        monkeypatch.setattr(psycopg.Connection, "execute", execute)
        await commits_of(store).call(change)
        monkeypatch.undo()
    with pytest.raises(psycopg.OperationalError):
        former[0].execute("COMMIT")
    former[0].close()


async def test_the_feed_fails_after_a_commit(store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener()
    store.subscribe(listener)
    usual = Feed.take
    fails = True

    def take(self: Feed, connection: psycopg.Connection, asked: psycopg.Cursor) -> Any:
        if fails:
            raise psycopg.OperationalError("the connection is lost")
        return usual(self, connection, asked)

    monkeypatch.setattr(Feed, "take", take)
    assert await store.append(to("e1")) == [True]
    assert listener.take() == []
    fails = False
    assert await store.append(to("e2")) == [True]
    assert listener.take() == [("appended", ["e1", "e2"])]


async def test_the_connection_is_lost_behind_the_feed(
    store: PostgresqlStore, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = Listener()
    store.subscribe(listener)
    store.share(lambda _: True)
    store.writer.guard = None  # this is not about membership
    usual = Feed.take

    def take(self: Feed, connection: psycopg.Connection, asked: psycopg.Cursor) -> Any:
        news = usual(self, connection, asked)
        if news.appended:
            postgres.execute(f"SELECT pg_terminate_backend({connection.info.backend_pid}, 5000)")
        return news

    monkeypatch.setattr(Feed, "take", take)
    assert await store.append(to("e1")) == [True]
    assert listener.take() == [("appended", ["e1"])]


@pytest.mark.parametrize("bad", [False, True], ids=["good", "one bad value"])
async def test_what_was_asked_in_turns_is_written_in_turns(store: PostgresqlStore, bad: bool) -> None:
    """Several groups in one commit: appends and settlements, functions, and what was asked after them."""
    await store.append(to("e0"))
    [first] = await seqs_of(store)
    failures: list[Exception] = []

    async def append(name: str) -> None:
        try:
            await store.append(to(name))
        except Invalid as error:
            failures.append(error)

    async def put(key: str) -> None:
        await store.put_value(key, key)

    turn = turn_of(store)
    async with trio.open_nursery() as nursery:
        await turn.acquire()
        nursery.start_soon(store.check)  # the commit that waits for its turn; the others gather behind it
        await wait_all_tasks_blocked()
        store.settle_nowait(as_delivered(first))
        for step, name in ((append, "e1"), (put, "a"), (append, "nul \0" if bad else "e2"), (put, "b")):
            nursery.start_soon(step, name)
            await wait_all_tasks_blocked()
        nursery.start_soon(append, "e3")
        await wait_all_tasks_blocked()
        turn.release()
    assert await ids_of(store) == (["e1", "e3"] if bad else ["e1", "e2", "e3"])
    assert len(failures) == bad
    assert await store.get_value("b") == "b"


@pytest.fixture
def without_standby(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """A server whose commits may wait for a standby that is away: see :func:`wait_for_standby`."""
    yield postgres
    wait_for_standby(postgres, "")


def wait_for_standby(postgres: PostgresServer, name: str) -> None:
    """Let commits wait for a standby of this name, and return once they do; with none, let them not wait."""
    postgres.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
    postgres.execute("SELECT pg_reload_conf()")
    while name and not has_to_wait(postgres):
        pass  # the server's processes hear of the name in their own time


def has_to_wait(postgres: PostgresServer) -> bool:
    """Return whether a commit waits for the standby; that commit has ended by then."""
    with closing(psycopg.connect(postgres.url(), autocommit=True)) as connection:
        process, waits = connection.info.backend_pid, False
        connection.pgconn.send_query(b"SELECT pg_logical_emit_message(true, 'test', '')")
        connection.pgconn.flush()
        while connection.pgconn.is_busy():
            asked = f"SELECT 1 FROM pg_stat_activity WHERE pid = {process} AND wait_event = 'SyncRep'"
            if postgres.execute(asked):
                waits = True
                postgres.execute(f"SELECT pg_cancel_backend({process})")
            connection.pgconn.consume_input()
        return waits


async def waiting_process(postgres: PostgresServer, other_than: int = 0) -> int:
    """Wait until a commit waits for the standby; return the server's process of its connection."""
    asked = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    with trio.fail_after(30):
        while True:
            for (pid,) in await trio.to_thread.run_sync(postgres.execute, asked):
                if pid != other_than:
                    assert isinstance(pid, int)
                    return pid
            await trio.sleep(0.02)


async def test_a_commit_whose_wait_for_the_standby_is_cancelled_waits_again(
    patient_store: PostgresqlStore, without_standby: PostgresServer
) -> None:
    """The server calls it committed, with a warning only; a failover would lose it."""
    answers = []

    async def append() -> None:
        answers.append(await patient_store.append(to("e1")))

    wait_for_standby(without_standby, "away")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(append)
        first = await waiting_process(without_standby)
        await trio.to_thread.run_sync(without_standby.execute, f"SELECT pg_cancel_backend({first})")
        await waiting_process(without_standby, other_than=first)
        assert answers == []
        wait_for_standby(without_standby, "")
    assert answers == [[True]]
    assert await ids_of(patient_store) == ["e1"]


async def test_a_commit_that_waits_too_long_for_the_standby_says_so(
    database: Server, without_standby: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.store.postgresql.store.WRITE_PATIENCE", 2.0)
    async with open_store(database, clock=Clock()) as store:
        wait_for_standby(without_standby, "away")
        with pytest.raises(StorageUnavailable, match="no answer within 2 s"):
            await store.append(to("e1"))
        wait_for_standby(without_standby, "")


@pytest.fixture
def forgetful(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """A server that forgets what nobody has waited for when it crashes."""
    postgres.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
    postgres.execute("SELECT pg_reload_conf()")
    yield postgres
    postgres.execute("ALTER SYSTEM RESET wal_writer_delay")
    postgres.execute("SELECT pg_reload_conf()")


@pytest.mark.parametrize("what", ["event", "settlement", "record"])
async def test_the_server_crashes_in_a_commit_and_another_transaction_gets_its_number(
    patient_store: PostgresqlStore, forgetful: PostgresServer, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    store = patient_store
    await store.append(to("e0"))
    [first] = await seqs_of(store)
    usual = psycopg.Connection.execute
    crashed = False

    def execute(self: psycopg.Connection, query: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal crashed
        if query == "COMMIT" and not crashed:
            crashed = True
            forgetful.stop()
            forgetful.start()
            forgetful.execute(
                f"""DO $$ BEGIN FOR number IN 1000..1050 LOOP
                    INSERT INTO {store.server.schema}.probe VALUES (number, 1); COMMIT;
                END LOOP; END $$"""
            )
        return usual(self, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    if what == "event":
        assert await store.append(to("e1")) == [True]
        assert await ids_of(store) == ["e0", "e1"]
    elif what == "settlement":
        store.settle_nowait(as_delivered(first))
        await store.flush()
        assert await ids_of(store) == []
        assert await pending_of(store) == 0
    else:
        await store.put_value("a", "1")
        assert await store.get_value("a") == "1"
    assert crashed
