"""Looking up names: in threads that silent servers cannot take from the others."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import trio
import trio.testing

from hookgw.delivery.http.resolver import MAX_NEW, MAX_QUICK, MAX_REMEMBERED, MAX_SLOW, SLOW, SystemResolver

PATIENCE = 10.0
HANGS = "hangs"


class Names:
    """A ``getaddrinfo`` whose servers are silent for names that begin with ``hangs`` until told otherwise.

    Attributes:
        asked: every name that was asked for, in order.
        open: how many calls hang just now.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.open = 0
        self._lock = threading.Lock()
        self._answer = threading.Event()

    def __call__(self, host: str, port: int, *, type: int) -> Any:  # noqa: A002 - as getaddrinfo names it
        with self._lock:
            self.asked.append(host)
            self.open += host.startswith(HANGS)
        if host.startswith(HANGS):
            self._answer.wait(PATIENCE)
            with self._lock:
                self.open -= 1
        if host == "nobody.example":
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, type, 6, "", ("8.8.8.8", port)), (0, type, 6, "", ("::8", port, 0, 3))]

    async def wait_open(self, count: int) -> None:
        """Wait until so many calls hang; they are in threads, which Trio does not see."""
        for _ in range(10_000):
            if self.open == count:
                return
            await trio.testing.wait_all_tasks_blocked(0.001)
        pytest.fail(f"{self.open} calls hang, not {count}")

    def answer(self) -> None:
        """Let all calls return, also those to come."""
        self._answer.set()

    def fall_silent(self) -> None:
        self._answer.clear()


@pytest.fixture
def names() -> Iterator[Names]:
    made = Names()
    yield made
    made.answer()


async def ask(resolver: SystemResolver, host: str, port: int = 80) -> Any:
    with trio.fail_after(PATIENCE):
        return await resolver(host, port, type=socket.SOCK_STREAM)


async def let_hang(resolver: SystemResolver, names: Names, hosts: list[str]) -> None:
    """Ask for silent names, and give up once the system has been asked for all of them."""
    before = names.open
    async with trio.open_nursery() as nursery:
        for host in hosts:
            nursery.start_soon(ask, resolver, host)
        await names.wait_open(before + len(hosts))
        nursery.cancel_scope.cancel()


async def test_a_name_is_looked_up_and_the_port_put_in(names: Names) -> None:
    assert await ask(SystemResolver(names), "a.example", 8080) == [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", 8080)),
        (0, socket.SOCK_STREAM, 6, "", ("::8", 8080, 0, 3)),
    ]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_an_address_is_not_looked_up(names: Names, host: str) -> None:
    [found] = await ask(SystemResolver(names), host, 8080)
    assert found[4][:2] == (host, 8080)
    assert not names.asked


async def test_the_systems_resolver_is_asked() -> None:
    assert await ask(SystemResolver(), "localhost", 8080)


async def test_a_name_that_nobody_knows_is_told_to_each_who_asks(names: Names) -> None:
    resolver = SystemResolver(names)
    for _ in range(2):
        with pytest.raises(socket.gaierror, match="Name or service not known"):
            await ask(resolver, "nobody.example")


async def test_nothing_is_kept_of_an_answer(names: Names) -> None:
    resolver = SystemResolver(names)
    await ask(resolver, "a.example")
    await ask(resolver, "a.example")
    assert names.asked == ["a.example"] * 2


async def test_who_asks_meanwhile_waits_for_the_one_lookup(names: Names) -> None:
    resolver, answers = SystemResolver(names), []

    async def one(port: int) -> None:
        answers.append((await ask(resolver, HANGS, port))[0][4])

    async with trio.open_nursery() as nursery:
        for port in (1, 2, 3):
            nursery.start_soon(one, port)
        await names.wait_open(1)
        names.answer()
    assert sorted(answers) == [("8.8.8.8", 1), ("8.8.8.8", 2), ("8.8.8.8", 3)]
    assert names.asked == [HANGS]


async def test_who_gives_up_leaves_the_lookup_to_those_who_come_after(names: Names) -> None:
    resolver = SystemResolver(names)
    await let_hang(resolver, names, [HANGS])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, resolver, HANGS)
        await trio.testing.wait_all_tasks_blocked()
        names.answer()
    assert names.asked == [HANGS]


async def test_new_names_have_only_so_many_threads_and_known_ones_have_others(names: Names) -> None:
    resolver = SystemResolver(names)
    await ask(resolver, "known.example")
    async with trio.open_nursery() as nursery:
        for number in range(MAX_NEW + 20):
            nursery.start_soon(ask, resolver, f"{HANGS}-{number}")
        await names.wait_open(MAX_NEW)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert names.open == MAX_NEW
        await ask(resolver, "known.example")
        names.answer()
    assert len(names.asked) == MAX_NEW + 20 + 2


async def test_one_name_has_one_thread_however_many_wait_for_it(names: Names) -> None:
    resolver = SystemResolver(names)
    async with trio.open_nursery() as nursery:
        for port in range(1, 200):
            nursery.start_soon(ask, resolver, HANGS, port)
        await names.wait_open(1)
        await ask(resolver, "new.example")
        names.answer()
    assert names.asked.count(HANGS) == 1


async def test_slow_names_hold_up_one_another_alone(names: Names, mock_clock: trio.testing.MockClock) -> None:
    resolver, slow = SystemResolver(names), [f"{HANGS}-{number}" for number in range(MAX_SLOW + 5)]
    await make_slow(resolver, names, slow, mock_clock)
    names.fall_silent()
    async with trio.open_nursery() as nursery:
        for host in slow:
            nursery.start_soon(ask, resolver, host)
        await names.wait_open(MAX_SLOW)
        await ask(resolver, "new.example")
        names.answer()
    assert len(names.asked) == 2 * len(slow) + 1


async def test_a_slow_name_that_has_become_quick_is_a_known_one(
    names: Names, mock_clock: trio.testing.MockClock
) -> None:
    resolver, others = SystemResolver(names), [f"{HANGS}-{number}" for number in range(MAX_SLOW)]
    await make_slow(resolver, names, [*others, HANGS], mock_clock)
    await ask(resolver, HANGS)
    names.fall_silent()
    async with trio.open_nursery() as nursery:
        for host in [*others, HANGS]:
            nursery.start_soon(ask, resolver, host)
        await names.wait_open(MAX_SLOW + 1)
        names.answer()


async def test_it_is_forgotten_which_names_were_quick_the_longest_ago(
    names: Names, monkeypatch: pytest.MonkeyPatch, mock_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setattr("hookgw.delivery.http.resolver.MAX_REMEMBERED", MAX_SLOW + 1)
    resolver, slow = SystemResolver(names), [f"{HANGS}-{number}" for number in range(MAX_SLOW + 1)]
    await make_slow(resolver, names, slow, mock_clock)
    await ask(resolver, "new.example")
    names.fall_silent()
    async with trio.open_nursery() as nursery:
        for host in slow:
            nursery.start_soon(ask, resolver, host)
        await names.wait_open(MAX_SLOW + 1)
        names.answer()


async def make_slow(
    resolver: SystemResolver, names: Names, hosts: list[str], clock: trio.testing.MockClock
) -> None:
    """Let each of the names take long, then answer."""
    async with trio.open_nursery() as nursery:
        for host in hosts:
            nursery.start_soon(ask, resolver, host)
        await names.wait_open(len(hosts))
        clock.jump(SLOW)
        names.answer()


def test_a_lookup_that_ends_after_the_run_is_nobodys_trouble(
    names: Names, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        await let_hang(SystemResolver(names), names, [HANGS])

    trio.run(main)
    before = names.open
    names.answer()
    while names.open:
        threading.Event().wait(0.001)
    assert before == 1
    assert capfd.readouterr().err == ""


def test_the_shares_are_as_documented() -> None:
    assert MAX_QUICK + MAX_NEW + MAX_SLOW == 64
    assert MAX_REMEMBERED == 10_000
