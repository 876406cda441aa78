from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
import trio
from psycopg import Connection, OperationalError
from psycopg.errors import LockNotAvailable, ProgramLimitExceeded
from structlog.testing import capture_logs

from hookgw import Conflict
from tests.public.kernel import StorageUnavailable
from tests.public.postgresql import FENCE, Nodes, Server
from tests.public.records import SHARDS
from tests.support.postgres import PostgresServer
from tests.support.waits import until


@pytest.fixture
def servers(database: Server, postgres: PostgresServer) -> list[Server]:
    """The database, as three processes see it."""
    return [Server(postgres.url(), database.schema) for _ in range(3)]


@pytest.fixture
def nodes(servers: list[Server]) -> Iterator[list[Nodes]]:
    with ExitStack() as stack:
        made = [Nodes(server) for server in servers]
        for node in made:
            stack.enter_context(closing(node.session))
        yield made


def age(connection: Connection, node: Nodes) -> None:
    """Let a node's last heartbeat be long ago."""
    connection.execute(
        "UPDATE nodes SET heartbeat_at = heartbeat_at - interval '1 h' WHERE generation = %s",
        (node.generation,),
    )


async def test_a_node_joins_and_is_seen(nodes: list[Nodes]) -> None:
    a, b, _ = nodes
    await a.join("a", "http://a")
    await b.join("b", "http://b")
    assert a.generation < b.generation
    view = await a.heartbeat()
    assert view is not None
    assert [(n.name, n.generation, n.url) for n in view.nodes] == [
        ("a", a.generation, "http://a"),
        ("b", b.generation, "http://b"),
    ]
    assert all(0 <= node.heartbeat_age < 30 and not node.is_leaving for node in view.nodes)
    assert view.owners == (None,) * SHARDS


async def test_nodes_take_their_share(nodes: list[Nodes], connection: Connection) -> None:
    a, b, _ = nodes
    await a.join("a", "http://a")
    assert await a.claim() == frozenset(range(SHARDS))
    await b.join("b", "http://b")
    assert await b.claim() == frozenset()
    await a.give(range(128))
    assert await b.claim() == frozenset(range(128))
    view = await b.heartbeat()
    assert view is not None
    assert view.held_by(a.generation) == frozenset(range(128, SHARDS))
    owner = view.owner_of(0)
    assert owner is not None
    assert owner.name == "b"
    # Each takeover raises the epoch.
    epochs = connection.execute("SELECT epoch FROM shards WHERE shard IN (0, 200) ORDER BY shard")
    assert epochs.fetchall() == [(2,), (1,)]


async def test_nodes_only_give_what_is_theirs(nodes: list[Nodes]) -> None:
    a, b, _ = nodes
    await a.join("a", "")
    await a.claim()
    await b.join("b", "")
    await b.give(range(SHARDS))
    assert len(await a.claim()) == SHARDS


async def test_nodes_come_and_go_while_the_servers_queue_of_notifications_is_full(
    nodes: list[Nodes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that listens, and does not end its transaction, fills it: nobody else can notify then."""
    usual = Connection.execute

    def execute(self: Connection, query: Any, *arguments: Any, **options: Any) -> Any:
        if "NOTIFY" in str(query):
            raise ProgramLimitExceeded("too many notifications in the NOTIFY queue")
        return usual(self, query, *arguments, **options)

    monkeypatch.setattr(Connection, "execute", execute)
    a, b, _ = nodes
    await a.join("a", "http://a")
    await a.claim()
    await b.join("b", "http://b")
    await a.give(range(128))
    assert await b.claim() == frozenset(range(128))
    await a.leave()
    assert await b.claim() == frozenset(range(SHARDS))


async def test_a_node_without_heartbeats_is_removed_with_everything(
    nodes: list[Nodes], connection: Connection
) -> None:
    a, b, _ = nodes
    await a.join("a", "")
    await a.claim()
    await b.join("b", "")
    age(connection, a)
    assert len(await b.claim()) == SHARDS
    assert await a.heartbeat() is None
    assert await a.claim() == frozenset()
    assert connection.execute(FENCE, (a.generation,)).fetchone() is None
    # It comes back as another member.
    former = a.generation
    assert await a.join("a", "") > former
    assert await a.heartbeat() is not None


async def test_a_heartbeat_of_the_future_counts_from_the_moment_at_which_it_is_seen(
    nodes: list[Nodes], connection: Connection
) -> None:
    """The clock of the database went back, or its standby's is behind."""
    a, b, again = nodes
    await a.join("a", "http://a")
    await b.join("b", "http://b")
    connection.execute("UPDATE nodes SET heartbeat_at = heartbeat_at + interval '40 s'")
    await b.heartbeat()  # its own is right again
    view = await b.heartbeat()
    assert view is not None
    assert all(0 <= node.heartbeat_age < 30 for node in view.nodes)
    # Who starts under the name of a killed node waits no longer than otherwise.
    connection.execute("UPDATE nodes SET heartbeat_at = heartbeat_at + interval '40 s'")
    with pytest.raises(Conflict):
        await again.join("a", "http://a")
    aged = "UPDATE nodes SET heartbeat_at = heartbeat_at - interval '1 h'"
    connection.execute(aged)
    await again.join("a", "http://a")


async def test_what_a_dead_node_has_begun_is_ended(
    nodes: list[Nodes], servers: list[Server], connection: Connection
) -> None:
    """It may be cut off in a transaction, which would hold up what all others deliver for as long."""
    a, b, _ = nodes
    await a.join("a", "")
    await a.claim()
    await b.join("b", "")
    with closing(servers[0].connect()) as cut_off, closing(servers[1].connect()) as other:
        cut_off.execute("BEGIN")
        cut_off.execute(FENCE, (a.generation,))
        age(connection, a)
        assert len(await b.claim()) == SHARDS
        with pytest.raises(OperationalError):
            cut_off.execute("COMMIT")
        other.execute("SELECT 1")
    assert await b.heartbeat() is not None


async def test_nodes_of_a_copy_in_the_same_server_leave_those_of_the_original_alone(
    nodes: list[Nodes], servers: list[Server], postgres: PostgresServer, connection: Connection
) -> None:
    """The copy has the rows of the original's nodes, which look dead there."""
    a, b, _ = nodes
    await a.join("a", "")
    await b.join("b", "")
    age(connection, a)
    postgres.execute("CREATE DATABASE original")
    try:
        name = f"hookgw {servers[0].token}"
        with closing(Connection.connect(postgres.url("original"), application_name=name)) as lives:
            await b.claim()
            lives.execute("SELECT 1")
    finally:
        postgres.execute("DROP DATABASE original")


async def test_what_a_dead_node_has_begun_is_ended_also_if_a_role_is_preset(
    acting: tuple[Server, Server], connection: Connection
) -> None:
    dead, other = map(Nodes, acting)
    with closing(dead.session), closing(other.session), closing(acting[0].connect()) as cut_off:
        await dead.join("a", "")
        await dead.claim()
        await other.join("b", "")
        cut_off.execute("BEGIN")
        cut_off.execute(FENCE, (dead.generation,))
        age(connection, dead)
        assert len(await other.claim()) == SHARDS
        with pytest.raises(OperationalError):
            cut_off.execute("COMMIT")


async def test_the_connections_of_a_process_can_be_told(postgres: PostgresServer) -> None:
    for given in ("", "&application_name=" + 70 * "x"):
        server = Server(postgres.url() + given)
        with closing(server.connect()) as connection:
            row = connection.execute("SHOW application_name").fetchone()
            assert row is not None
            assert row[0].endswith(f" {server.token}")


async def test_a_start_waits_no_more_for_one_that_is_silent(
    nodes: list[Nodes], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = nodes
    monkeypatch.setattr("hookgw.store.postgresql.nodes.START_SILENT", 0.1)
    async with a.starting():
        with capture_logs() as logs:
            async with b.starting():
                pass
        assert [one["cut_off"] for one in logs][-1] == ["local"]


async def test_a_start_names_the_user_of_one_that_it_cannot_cut_off(
    nodes: list[Nodes], acting: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where two users take turns. The log had it as cut off, and nobody knew why nodes do not start."""
    monkeypatch.setattr("hookgw.store.postgresql.nodes.START_SILENT", 0.1)
    other = Nodes(acting[0])
    with closing(other.session):
        async with nodes[0].starting(), trio.open_nursery() as nursery:
            with capture_logs() as logs:
                nursery.start_soon(_start_and_end, other)
                await until(lambda: len(logs) > 1)
            nursery.cancel_scope.cancel()
    assert {(tuple(one["cut_off"]), tuple(one["other_users"])) for one in logs} == {((), ("hookgw",))}


async def test_a_start_waits_for_one_that_is_at_work(
    nodes: list[Nodes], servers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = nodes
    monkeypatch.setattr("hookgw.store.postgresql.nodes.START_SILENT", 0.1)
    with closing(servers[0].connect()) as other:
        async with a.starting():
            other.execute("BEGIN")
            async with trio.open_nursery() as nursery:
                with capture_logs() as logs:
                    nursery.start_soon(_start_and_end, b)
                    await until(lambda: len(logs) > 2)
                nursery.cancel_scope.cancel()
            assert {tuple(one["cut_off"]) for one in logs} == {()}
        other.execute("COMMIT")
        async with b.starting():
            pass


async def _start_and_end(node: Nodes) -> None:
    async with node.starting():
        pass


async def test_a_name_is_taken_as_long_as_its_node_lives(nodes: list[Nodes], connection: Connection) -> None:
    a, again, _ = nodes
    await a.join("a", "")
    await a.claim()
    with pytest.raises(Conflict, match="unique"):
        await again.join("a", "")
    age(connection, a)
    await again.join("a", "")
    assert len(await again.claim()) == SHARDS


async def test_a_node_whose_answer_was_lost_joins_again(nodes: list[Nodes]) -> None:
    a = nodes[0]
    first = await a.join("a", "")
    assert await a.join("a", "") > first


async def test_a_node_that_leaves_gives_everything_back(nodes: list[Nodes]) -> None:
    a, b, _ = nodes
    await a.join("a", "")
    await a.claim()
    await b.join("b", "")
    await a.announce(is_leaving=True)
    view = await b.heartbeat()
    assert view is not None
    assert [node.is_leaving for node in view.nodes] == [True, False]
    await a.give(range(10))
    assert await a.claim() == frozenset(range(10, SHARDS))  # takes nothing
    assert await b.claim() == frozenset(range(10))
    await a.leave()
    assert len(await b.claim()) == SHARDS


async def test_a_node_is_not_removed_during_its_commit(
    nodes: list[Nodes], connection: Connection, database: Server
) -> None:
    a, b, _ = nodes
    await a.join("a", "")
    await a.claim()
    await b.join("b", "")
    age(connection, a)
    with closing(database.connect()) as writer, writer.transaction():
        assert writer.execute(FENCE, (a.generation,)).fetchone() is not None
        # A heartbeat does not wait for a commit, nor a commit for a heartbeat.
        assert await a.heartbeat() is not None
        age(connection, a)
        with pytest.raises(StorageUnavailable):
            await b.claim()
    assert len(await b.claim()) == SHARDS


async def test_many_commits_share_the_fence(nodes: list[Nodes], database: Server) -> None:
    a = nodes[0]
    await a.join("a", "")
    with closing(database.connect()) as one, closing(database.connect()) as other:
        other.execute("SET lock_timeout = '100ms'")
        with one.transaction(), other.transaction():
            for writer in (one, other):
                try:
                    assert writer.execute(FENCE, (a.generation,)).fetchone() is not None
                except LockNotAvailable:
                    pytest.fail("one commit waits for another")


async def test_the_version_of_the_records_is_seen(nodes: list[Nodes], connection: Connection) -> None:
    a = nodes[0]
    await a.join("a", "")
    before = await a.heartbeat()
    connection.execute("INSERT INTO shelves VALUES ('instances', 'shop', '{}')")
    after = await a.heartbeat()
    assert before is not None
    assert after is not None
    assert after.version > before.version
