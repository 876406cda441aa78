"""The known attacks. Each is one function; :mod:`tests.isolation.attacks` has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from tests.isolation.target import Target

Run = Callable[[Target], Awaitable[None]]


class Attack(NamedTuple):
    """One way to hurt others.

    Attributes:
        name: for the command line and the table.
        what: what the attacker does, in a few words.
        run: prepares, calls :meth:`Target.begin`, and attacks until it is cancelled.
        settings: blocks of the configuration that differ from the defaults.
        descriptors: the limit on open files of the gateway.
        plugin: the source of a plugin that the gateway loads.
        blocks: the attack is a plugin that blocks the event loop, which nothing can contain. Latencies are
            not judged then; the gateway must report it.
    """

    name: str
    what: str
    run: Run
    settings: Mapping[str, Mapping[str, Any]]
    descriptors: int | None
    plugin: str | None
    blocks: bool


ATTACKS: dict[str, Attack] = {}


def attack(
    name: str,
    what: str,
    *,
    settings: Mapping[str, Mapping[str, Any]] = {},
    descriptors: int | None = None,
    plugin: str | None = None,
    blocks: bool = False,
) -> Callable[[Run], Run]:
    """Add a function to :data:`ATTACKS`; the arguments are those of :class:`Attack`."""

    def add(run: Run) -> Run:
        assert name not in ATTACKS, name
        ATTACKS[name] = Attack(name, what, run, settings, descriptors, plugin, blocks)
        return run

    return add
