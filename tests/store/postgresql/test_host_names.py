"""Lookups of the database's hosts: silent name servers hold no session up."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from hookgw.store.postgresql import server
from hookgw.store.postgresql.host_names import HostNames
from tests.public.postgresql import DatabaseSession, Server

PATIENCE = 10.0
AT_ONCE = 0.0


class Names:
    """A ``getaddrinfo`` that has no answer for names that begin with ``hangs`` until :meth:`answer`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._answer = threading.Event()

    def __call__(self, host: str, port: None, *, type: int) -> Any:  # noqa: A002 -- as getaddrinfo names it
        self.asked.append(host)
        if host.startswith("hangs"):
            self._answer.wait(PATIENCE)
        if host == "nobody.test":
            raise socket.gaierror(-2, "Name or service not known")
        return [
            (socket.AF_INET6, type, 6, "", ("::8", 0, 0, 0)),
            (socket.AF_INET, type, 6, "", ("8.8.8.8", 0)),
        ]

    def answer(self) -> None:
        self._answer.set()


@pytest.fixture
def names() -> Iterator[Names]:
    made = Names()
    yield made
    made.answer()


def test_each_address_of_a_host_is_tried(names: Names) -> None:
    assert HostNames(names).addressed({"host": "db.test", "port": 6543}, PATIENCE) == {
        "host": "db.test,db.test",
        "hostaddr": "::8,8.8.8.8",
    }


def test_hosts_keep_their_order_and_their_ports(names: Names) -> None:
    given = {"host": "/run/postgresql,db.test,10.0.0.7", "port": "1,2,3"}
    assert HostNames(names).addressed(given, PATIENCE) == {
        "host": "/run/postgresql,db.test,db.test,10.0.0.7",
        "hostaddr": ",::8,8.8.8.8,",
        "port": "1,2,2,3",
    }


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"host": "/run/postgresql"},
        {"host": "127.0.0.1,::1"},
        {"host": "db.test", "hostaddr": "10.0.0.7"},
    ],
)
def test_what_is_no_name_is_not_looked_up(names: Names, given: dict[str, str]) -> None:
    assert HostNames(names).addressed(given, PATIENCE) == {}
    assert names.asked == []


def test_a_host_without_an_address_is_left_out(names: Names) -> None:
    found = HostNames(names).addressed({"host": "nobody.test,db.test", "port": "1,2"}, PATIENCE)
    assert found == {"host": "db.test,db.test", "hostaddr": "::8,8.8.8.8", "port": "2,2"}


def test_a_host_that_nobody_knows(names: Names) -> None:
    with pytest.raises(psycopg.OperationalError, match=r"nobody\.test could not be resolved: Name"):
        HostNames(names).addressed({"host": "nobody.test"}, PATIENCE)


def test_silent_name_servers_end_no_patience_and_get_one_question(names: Names) -> None:
    looked_up = HostNames(names)
    for _ in range(3):
        with pytest.raises(psycopg.errors.ConnectionTimeout, match=r"do not answer for hangs\.test"):
            looked_up.addressed({"host": "hangs.test"}, AT_ONCE)
    assert names.asked == ["hangs.test"]


def test_a_slow_answer_is_for_the_next_attempt(names: Names) -> None:
    """With the first of two name servers away, each lookup takes longer than an attempt waits."""
    looked_up = HostNames(names)
    with pytest.raises(psycopg.errors.ConnectionTimeout):
        looked_up.addressed({"host": "hangs.test"}, AT_ONCE)
    names.answer()
    assert looked_up.addressed({"host": "hangs.test"}, PATIENCE)["hostaddr"] == "::8,8.8.8.8"
    assert names.asked == ["hangs.test"]
    looked_up.addressed({"host": "hangs.test"}, PATIENCE)  # an address is not remembered: it may change
    assert names.asked == ["hangs.test"] * 2


def test_a_host_that_answers_needs_no_other(names: Names) -> None:
    found = HostNames(names).addressed({"host": "hangs.test,db.test"}, 0.01)
    assert found == {"host": "db.test,db.test", "hostaddr": "::8,8.8.8.8"}


def test_a_session_gives_up_a_silent_name(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread would neither answer its callers nor let the process end."""
    monkeypatch.setattr(socket, "getaddrinfo", names)
    monkeypatch.setattr(server, "START_PATIENCE", 0.0)
    monkeypatch.setattr(server, "CONNECT_TIMEOUT", 0.01)
    session = DatabaseSession(Server("postgresql://me@hangs.test/hooks"))
    with pytest.raises(psycopg.OperationalError, match="the name servers do not answer"):
        session.call(lambda connection: connection.execute("SELECT 1"))
