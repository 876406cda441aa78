import resource
from typing import cast

import pytest
import structlog
from trio.testing import MockClock

from tests.public.config import ServerSettings
from tests.public.web import ClientConnection, ClientTimeouts, ConnectionLimits, Wait


class Client:
    """A fake connection that waits for something, or does not wait."""

    def __init__(self, timeouts: ClientTimeouts, table: str = "", peer: str | None = "192.0.2.1") -> None:
        self.wait: Wait | None = getattr(timeouts, table) if table else None
        self.peer = peer
        self.is_closed = False
        if self.wait is not None:
            self.wait.begin(cast("ClientConnection", self))

    def waits_in(self, wait: Wait) -> bool:
        return wait is self.wait

    def eviction_rank(self) -> tuple[int, float] | None:
        if self.wait is None:
            return None
        since = self.wait.since(cast("ClientConnection", self))
        return None if since is None else (self.wait.rank, since)

    def abort(self) -> None:
        self.is_closed = True
        if self.wait is not None:
            self.wait.end(cast("ClientConnection", self))


class Hall:
    """Connection limits, and clients that connect."""

    def __init__(self, most: int = 3, of_one: int = 3, proxies: tuple[str, ...] = ()) -> None:
        settings = ServerSettings(
            max_connections=most, max_connections_per_address=of_one, trusted_proxies=proxies
        )
        self.timeouts = ClientTimeouts(settings)
        self.limits = ConnectionLimits(settings, self.timeouts)

    def admit(self, client: Client) -> bool:
        return self.limits.admit(cast("ClientConnection", client), client.peer)

    def leave(self, client: Client) -> None:
        self.limits.remove(cast("ClientConnection", client))

    def seated(self, *tables: str, peer: str | None = "192.0.2.1") -> list[Client]:
        clients = [Client(self.timeouts, table, peer) for table in tables]
        assert all(self.admit(client) for client in clients)
        return clients

    def comes(self, peer: str | None = "192.0.2.1") -> bool:
        return self.admit(Client(self.timeouts, peer=peer))


async def test_there_is_room_up_to_the_limit(mock_clock: MockClock) -> None:
    hall = Hall()
    first, *_ = hall.seated("", "", "")
    assert not hall.comes()
    assert not hall.comes("192.0.2.2")
    assert hall.limits.count() == (3, 2)
    hall.leave(first)
    hall.leave(first)
    assert len(hall.limits) == 2
    assert hall.comes()
    assert len(list(hall.limits)) == 3


@pytest.mark.parametrize(
    ("tables", "closed"),
    [
        (("heads", "idles", "idles"), 0),
        (("idles", "heads", "heads"), 0),
        (("", "idles", "heads"), 1),
        (("bodies", "", "heads"), 2),
        (("writes", "bodies", ""), 1),
        (("writes", "", ""), 0),
        (("writes", "bodies", "bodies"), 1),
    ],
)
@pytest.mark.parametrize("limits", [(3, 9), (9, 3)], ids=["in all", "of one"])
async def test_the_longest_wait_is_closed_first(
    tables: tuple[str, ...], closed: int, limits: tuple[int, int], mock_clock: MockClock
) -> None:
    hall = Hall(*limits)
    clients = []
    for table in tables:
        clients += hall.seated(table)
        mock_clock.jump(2)
    assert hall.comes()
    assert [client.is_closed for client in clients] == [number == closed for number in range(3)]
    assert hall.limits.count() == (3, 1)


@pytest.mark.parametrize("table", ["bodies", "writes"])
async def test_transfers_that_just_began_are_kept(table: str, mock_clock: MockClock) -> None:
    hall = Hall()
    hall.seated(table, table, table)
    assert not hall.comes()
    mock_clock.jump(1)
    assert hall.comes()


async def test_one_address_cannot_use_up_the_connections(mock_clock: MockClock) -> None:
    hall = Hall(most=9, of_one=2)
    hall.seated("", "")
    assert not hall.comes()
    assert hall.comes("192.0.2.2")


async def test_at_the_limit_of_an_address_its_own_connections_are_closed(mock_clock: MockClock) -> None:
    hall = Hall(most=9, of_one=2)
    (other,) = hall.seated("idles", peer="192.0.2.2")
    mock_clock.jump(1)
    own = hall.seated("idles")
    mock_clock.jump(1)
    own += hall.seated("idles")
    assert hall.comes()
    assert [client.is_closed for client in (other, *own)] == [False, True, False]


async def test_an_ipv6_network_is_one_address(mock_clock: MockClock) -> None:
    hall = Hall(most=9, of_one=2)
    hall.seated("", peer="2001:db8::1")
    hall.seated("", peer="2001:db8::2")
    assert not hall.comes("2001:db8::3")
    assert hall.comes("2001:db8:0:1::3")


async def test_trusted_proxies_and_unix_sockets_have_no_limit_of_their_own(mock_clock: MockClock) -> None:
    hall = Hall(most=9, of_one=1, proxies=("10.0.0.0/24",))
    hall.seated("", "", "", peer="10.0.0.1")
    hall.seated("", "", "", peer=None)
    hall.seated("")
    assert not hall.comes()


async def test_refused_connections_are_logged_once_a_minute(mock_clock: MockClock) -> None:
    hall = Hall(most=1)
    hall.seated("")
    with structlog.testing.capture_logs() as logs:
        for seconds in (0, 59, 1, 1):
            mock_clock.jump(seconds)
            assert not hall.comes("192.0.2.7")
    assert [(log["event"], log["client"], log["connections"]) for log in logs] == [
        ("connection refused, limit reached", "192.0.2.7", 1)
    ] * 2


@pytest.mark.parametrize(("most", "of_one", "is_named"), [(9, 1, True), (1, 9, False)])
async def test_at_the_limit_of_one_address_the_log_says_to_name_a_proxy(
    mock_clock: MockClock, most: int, of_one: int, is_named: bool
) -> None:
    hall = Hall(most, of_one)
    hall.seated("")
    with structlog.testing.capture_logs() as logs:
        assert not hall.comes()
    assert [("server.trusted_proxies" in log.get("fix", "")) for log in logs] == [is_named]


async def test_half_of_the_open_files_stay_free(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, room in ((6, 3), (1, 1), (resource.RLIM_INFINITY, 5)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        hall = Hall(most=5, of_one=9)
        hall.seated(*[""] * room)
        assert not hall.comes()


async def test_an_address_without_connections_is_forgotten() -> None:
    hall = Hall()
    for client in hall.seated("", ""):
        hall.leave(client)
    assert hall.limits.by_source == {}
