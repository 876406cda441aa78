"""Lookups in threads: silent name servers delay no other names."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing

from tests.public.delivery import LOOKUP_REFUSED_FOR as REFUSED_FOR
from tests.public.delivery import MAX_FAST_LOOKUPS as MAX_FAST
from tests.public.delivery import MAX_NEW_LOOKUPS as MAX_NEW
from tests.public.delivery import MAX_REMEMBERED_LOOKUPS as MAX_REMEMBERED
from tests.public.delivery import MAX_SLOW_LOOKUPS as MAX_SLOW
from tests.public.delivery import SLOW_LOOKUP as SLOW
from tests.public.delivery import LookupsOfTrio, SystemResolver

PATIENCE = 10.0
HANGS = "hangs"


class Names:
    """A ``getaddrinfo`` whose servers are silent for names that begin with ``hangs``, until :meth:`answer`.

    Attributes:
        asked: every name looked up, in order.
        open: the number of calls that hang now.
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


async def ask(resolver: SystemResolver, host: str, port: int = 80, holder: str | None = None) -> Any:
    """Look a name up, on behalf of an instance that asks for no other name by default."""
    with trio.fail_after(PATIENCE):
        return await resolver(host, port, type=socket.SOCK_STREAM, holder=host if holder is None else holder)


async def let_hang(
    resolver: SystemResolver, names: Names, hosts: list[str], holder: str | None = None
) -> None:
    """Look up silent names, and cancel once all the lookups have started."""
    before = names.open
    async with trio.open_nursery() as nursery:
        for host in hosts:
            nursery.start_soon(ask, resolver, host, 80, holder)
        await names.wait_open(before + len(hosts))
        nursery.cancel_scope.cancel()


async def test_a_name_is_looked_up_and_the_port_is_added(names: Names) -> None:
    assert await ask(SystemResolver(names), "a.example", 8080) == [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", 8080)),
        (0, socket.SOCK_STREAM, 6, "", ("::8", 8080, 0, 3)),
    ]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_an_address_is_not_looked_up(names: Names, host: str) -> None:
    [found] = await ask(SystemResolver(names), host, 8080)
    assert found[4][:2] == (host, 8080)
    assert not names.asked


async def test_the_systems_resolver_is_the_default() -> None:
    assert await ask(SystemResolver(), "localhost", 8080)


async def test_an_unknown_name_raises_for_every_caller(names: Names) -> None:
    resolver = SystemResolver(names)
    for _ in range(2):
        with pytest.raises(socket.gaierror, match="Name or service not known"):
            await ask(resolver, "nobody.example")


async def test_addresses_are_not_cached(names: Names) -> None:
    resolver = SystemResolver(names)
    await ask(resolver, "a.example")
    await ask(resolver, "a.example")
    assert names.asked == ["a.example"] * 2


async def test_concurrent_callers_share_one_lookup(names: Names) -> None:
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


async def test_the_lookup_of_a_cancelled_caller_goes_on(names: Names) -> None:
    resolver = SystemResolver(names)
    await let_hang(resolver, names, [HANGS])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, resolver, HANGS)
        await trio.testing.wait_all_tasks_blocked()
        names.answer()
    assert names.asked == [HANGS]


async def test_new_names_do_not_delay_known_names(names: Names) -> None:
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


@pytest.mark.parametrize(("was_fast", "most"), [(None, MAX_NEW), (True, MAX_FAST)])
async def test_one_instance_leaves_a_quarter_of_the_threads_to_others(
    names: Names, *, was_fast: bool | None, most: int
) -> None:
    resolver, silent = SystemResolver(names), [f"{HANGS}-{number}" for number in range(most + 20)]
    if was_fast:
        resolver.expected = frozenset([*silent, "new.example", "next.example"])
    async with trio.open_nursery() as nursery:
        for host in silent:
            nursery.start_soon(ask, resolver, host, 80, "attacker")
        await names.wait_open(most * 3 // 4)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert names.open == most * 3 // 4
        await ask(resolver, "new.example", holder="victim")
        await ask(resolver, "next.example", holder="victim")
        names.answer()
    assert set(names.asked) == {*silent, "new.example", "next.example"}


async def test_a_thread_counts_for_the_instance_until_it_ends(names: Names) -> None:
    # Whoever sets a URL waits for two seconds. Its lookup must not be anybody's then.
    resolver, first = SystemResolver(names), [f"{HANGS}-{number}" for number in range(MAX_NEW * 3 // 4)]
    await let_hang(resolver, names, first, "attacker")
    with trio.move_on_after(0.05):
        await ask(resolver, "more.example", holder="attacker")
        pytest.fail("the instance has more than its share")
    await ask(resolver, "new.example", holder="victim")
    names.answer()
    await ask(resolver, "more.example", holder="attacker")


async def test_a_name_that_another_instance_waits_for_is_nobodys(names: Names) -> None:
    resolver, silent = SystemResolver(names), [f"{HANGS}-{number}" for number in range(MAX_NEW * 3 // 4)]
    await let_hang(resolver, names, silent, "attacker")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, resolver, "shared.example", 80, "attacker")
        await trio.testing.wait_all_tasks_blocked()
        await ask(resolver, "shared.example", holder="victim")
        names.answer()


async def test_names_that_are_expected_to_be_fast_are_known_until_they_are_looked_up(
    names: Names, mock_clock: trio.testing.MockClock
) -> None:
    resolver = SystemResolver(names)
    resolver.expected = frozenset(["known.example", HANGS])
    async with trio.open_nursery() as nursery:
        for number in range(MAX_NEW):
            nursery.start_soon(ask, resolver, f"{HANGS}-{number}")
        await names.wait_open(MAX_NEW)
        await ask(resolver, "known.example")
        nursery.start_soon(ask, resolver, HANGS)
        await names.wait_open(MAX_NEW + 1)
        mock_clock.jump(SLOW)
        names.answer()
    assert next(iter(resolver.was_fast.items())) == ("known.example", True)
    assert resolver.was_fast[HANGS] is False


async def test_one_name_has_one_thread(names: Names) -> None:
    resolver = SystemResolver(names)
    async with trio.open_nursery() as nursery:
        for port in range(1, 200):
            nursery.start_soon(ask, resolver, HANGS, port)
        await names.wait_open(1)
        await ask(resolver, "new.example")
        names.answer()
    assert names.asked.count(HANGS) == 1


async def test_slow_names_delay_only_each_other(names: Names, mock_clock: trio.testing.MockClock) -> None:
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


async def test_a_slow_name_can_become_fast(names: Names, mock_clock: trio.testing.MockClock) -> None:
    resolver, others = SystemResolver(names), [f"{HANGS}-{number}" for number in range(MAX_SLOW)]
    await make_slow(resolver, names, [*others, HANGS], mock_clock)
    await ask(resolver, HANGS)
    names.fall_silent()
    async with trio.open_nursery() as nursery:
        for host in [*others, HANGS]:
            nursery.start_soon(ask, resolver, host)
        await names.wait_open(MAX_SLOW + 1)
        names.answer()


async def test_the_speed_of_the_oldest_name_is_forgotten(
    names: Names, monkeypatch: pytest.MonkeyPatch, mock_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setattr("hookgw.delivery.http.resolver.MAX_REMEMBERED_LOOKUPS", MAX_SLOW + 1)
    resolver, slow = SystemResolver(names), [f"{HANGS}-{number}" for number in range(MAX_SLOW + 1)]
    await make_slow(resolver, names, slow, mock_clock)
    await ask(resolver, "new.example")
    names.fall_silent()
    async with trio.open_nursery() as nursery:
        for host in slow:
            nursery.start_soon(ask, resolver, host)
        await names.wait_open(MAX_SLOW + 1)
        names.answer()


async def test_a_refused_thread_fails_the_lookup_and_the_next_one_starts_again(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    resolver, failed = SystemResolver(names), []

    async def one(host: str) -> None:
        with pytest.raises(socket.gaierror, match="can't start new thread"):
            await ask(resolver, host)
        failed.append(host)

    # More than there are threads, and some of one name: no token may be lost, and nobody may wait for ever.
    hosts = [*(f"{number}.example" for number in range(MAX_NEW)), *["a.example"] * 3]
    with monkeypatch.context() as patch:
        patch.setattr(trio.lowlevel, "start_thread_soon", refuse)
        async with trio.open_nursery() as nursery:
            for host in hosts:
                nursery.start_soon(one, host)
    assert sorted(failed) == sorted(hosts)
    assert not names.asked
    async with trio.open_nursery() as nursery:
        for host in hosts:
            nursery.start_soon(ask, resolver, host)
    assert set(names.asked) == set(hosts)


async def test_where_threads_are_refused_names_that_were_fast_keep_some(
    names: Names, monkeypatch: pytest.MonkeyPatch, mock_clock: trio.testing.MockClock
) -> None:
    start, most, given = trio.lowlevel.start_thread_soon, 8, 0

    def start_few(*arguments: Any) -> None:
        nonlocal given
        if given == most:
            raise RuntimeError("can't start new thread")
        given += 1
        start(*arguments)

    resolver = SystemResolver(names)
    await ask(resolver, "fast.example")
    monkeypatch.setattr(trio.lowlevel, "start_thread_soon", start_few)
    async with trio.open_nursery() as nursery:

        async def one(host: str) -> None:
            with suppress(socket.gaierror):
                await ask(resolver, host)

        for number in range(MAX_NEW):
            nursery.start_soon(one, f"{HANGS}{number}")
        await names.wait_open(most)
        threads = resolver.threads[None]
        assert threads.total == most // 2
        names.answer()
    given = 0
    mock_clock.jump(REFUSED_FOR)
    await ask(resolver, "fast.example")
    assert threads.total == MAX_NEW


async def make_slow(
    resolver: SystemResolver, names: Names, hosts: list[str], clock: trio.testing.MockClock
) -> None:
    """Let the lookup of each name take long, then answer."""
    async with trio.open_nursery() as nursery:
        for host in hosts:
            nursery.start_soon(ask, resolver, host)
        await names.wait_open(len(hosts))
        clock.jump(SLOW)
        names.answer()


async def test_lookups_of_trio_leave_its_threads_to_others(names: Names) -> None:
    """Those of calls between nodes, and of plugins' clients, which give up after some seconds."""
    trio.socket.set_custom_hostname_resolver(LookupsOfTrio(SystemResolver(names)))
    limiter = trio.to_thread.current_default_thread_limiter()
    for call in range(int(limiter.total_tokens)):
        with trio.move_on_after(0.01 if call else 1):
            await trio.open_tcp_stream("hangs.example", 80)
    with trio.fail_after(PATIENCE):
        assert await trio.to_thread.run_sync(lambda: "done") == "done"
    assert names.asked == ["hangs.example"]


async def test_other_lookups_of_trio_are_made_as_usual(names: Names) -> None:
    trio.socket.set_custom_hostname_resolver(LookupsOfTrio(SystemResolver(names)))
    found = await trio.socket.getaddrinfo("localhost", "http", type=socket.SOCK_STREAM)
    assert 80 in {entry[4][1] for entry in found}
    assert await trio.socket.getnameinfo(
        ("127.0.0.1", 80), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
    ) == (
        "127.0.0.1",
        "80",
    )
    assert names.asked == []


def test_a_lookup_may_end_after_the_run(names: Names, capfd: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        await let_hang(SystemResolver(names), names, [HANGS])

    trio.run(main)
    before = names.open
    names.answer()
    while names.open:
        threading.Event().wait(0.001)
    assert before == 1
    assert capfd.readouterr().err == ""


def test_the_numbers_of_threads_are_as_documented() -> None:
    assert MAX_FAST + MAX_NEW + MAX_SLOW == 64
    assert MAX_REMEMBERED == 10_000
