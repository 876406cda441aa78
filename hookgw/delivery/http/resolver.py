"""Looking up names, so that names whose servers never answer take nothing from the others.

The system's resolver blocks a thread until it answers, which takes half a minute where a name's server is
silent; nobody can interrupt it. So threads are what must be shared out:

- one lookup at a time for a name: whoever asks meanwhile waits for that one;
- names that answered quickly the last time, names that are new, and names that were slow have threads of
  their own. Slow names, however many, hold up one another alone; new ones hold up no known name.

Whoever waits may give up at any time; the lookup goes on, and what it teaches about the name is kept.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    import outcome

Found = Sequence[tuple[Any, Any, int, str, Any]]
"""What ``getaddrinfo`` gives: family, type, protocol, name, and the socket's address."""

Resolve = Callable[..., Awaitable[Found]]
"""As ``trio.socket.getaddrinfo``: called with host, port and ``type=``."""

SLOW = 2.0
"""Seconds from which a lookup is slow."""

MAX_QUICK = 24
"""How many names are looked up at once of those that answered quickly the last time."""
MAX_NEW = 32
"""How many of those of which nothing is known."""
MAX_SLOW = 8
"""How many of those that were slow the last time, or did not answer at all."""

MAX_REMEMBERED = 10_000
"""Of how many names it is remembered whether they were quick; the one asked for longest ago goes first."""


class SystemResolver:
    """``getaddrinfo`` in threads of its own, shared out fairly. It is a :data:`Resolve`.

    Args:
        getaddrinfo: in the place of the system's; called in threads.
    """

    def __init__(self, getaddrinfo: Callable[..., Found] | None = None) -> None:
        self._getaddrinfo = getaddrinfo or socket.getaddrinfo
        self._running: dict[str, _Lookup] = {}
        self._were_quick: OrderedDict[str, bool] = OrderedDict()
        self._limiters: dict[bool | None, trio.CapacityLimiter] = {
            True: trio.CapacityLimiter(MAX_QUICK),
            None: trio.CapacityLimiter(MAX_NEW),
            False: trio.CapacityLimiter(MAX_SLOW),
        }

    async def __call__(self, host: str, port: int, **options: Any) -> Found:
        """Look up a host; an address is taken as it is, without a thread.

        Args:
            host: a name, or an IP address without brackets.
            port: put into each address that is found.
            options: further arguments of ``getaddrinfo``, the same for every call.

        Raises:
            OSError, UnicodeError: as ``getaddrinfo`` raises them.
        """
        if _is_address(host):
            return socket.getaddrinfo(host, port, flags=socket.AI_NUMERICHOST, **options)
        found = await self._look_up(host, options)
        return [(*entry[:4], (entry[4][0], port, *entry[4][2:])) for entry in found]

    async def _look_up(self, host: str, options: dict[str, Any]) -> Found:
        lookup = self._running.get(host)
        if lookup is None:
            lookup = _Lookup(self._limiters[self._were_quick.get(host)])
            await lookup.limiter.acquire_on_behalf_of(lookup)
            if host in self._running:  # somebody else was given a thread for it first
                lookup.limiter.release_on_behalf_of(lookup)
                lookup = self._running[host]
            else:
                self._start(host, lookup, options)
        await lookup.done.wait()
        return lookup.result()

    def _start(self, host: str, lookup: _Lookup, options: dict[str, Any]) -> None:
        self._running[host] = lookup
        lookup.began = trio.current_time()
        token = trio.lowlevel.current_trio_token()

        def deliver(found: outcome.Outcome[Found]) -> None:
            with contextlib.suppress(trio.RunFinishedError):  # nobody is left to hear of it
                token.run_sync_soon(self._finish, host, lookup, found)

        trio.lowlevel.start_thread_soon(
            lambda: self._getaddrinfo(host, 0, **options), deliver, f"lookup of {host}"
        )

    def _finish(self, host: str, lookup: _Lookup, found: outcome.Outcome[Found]) -> None:
        del self._running[host]
        lookup.limiter.release_on_behalf_of(lookup)
        lookup.finish(found)
        self._were_quick[host] = trio.current_time() - lookup.began < SLOW
        self._were_quick.move_to_end(host)
        if len(self._were_quick) > MAX_REMEMBERED:
            self._were_quick.popitem(last=False)


class _Lookup:
    """One call of ``getaddrinfo``; any number of tasks may wait for it."""

    def __init__(self, limiter: trio.CapacityLimiter) -> None:
        self.limiter = limiter
        self.began = 0.0
        self.done = trio.Event()
        self._found: Found = ()
        self._error: Exception | None = None

    def finish(self, found: outcome.Outcome[Found]) -> None:
        try:
            self._found = found.unwrap()
        except Exception as error:  # noqa: BLE001 - it is raised in each task that waits
            self._error = error
        self.done.set()

    def result(self) -> Found:
        if self._error is not None:
            raise self._error
        return self._found


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
