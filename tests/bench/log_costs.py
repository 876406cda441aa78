"""What the log of events costs: an event with it, and the same event without its index or its payload.

A gateway of each kind runs all the time, in this process. They work in turn, and the medians are compared.
"""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

import trio
from msgspec import UNSET

from hookgw import Event, Gateway
from hookgw.store import log
from hookgw.store.sqlite import checkpoints
from tests.bench.parts import DATA, drained, gateway, make_events, receiving, register, scratch
from tests.bench.results import Result
from tests.public.webhooks import RegistrationChange
from tests.support.stores import index_log

INDEX_ROWS = log.INDEX_ROWS
LANES = 64
BATCH = 8


LOG_TURNS = 3
"""Further turns, after which the size of the write-ahead log is looked at."""


class _Cost(NamedTuple):
    """Of an event: processor time in µs, and bytes written to files: the log, and its folding."""

    cpu: float
    bytes: float


async def log_costs(  # noqa: C901 -- reads once from top to bottom
    full: bool,
) -> list[Result]:
    """Wanted and unwanted events with the log, beside wanted ones without an index and bare ids.

    Unwanted ones without an index show what the payload takes.
    """
    turns, count = (30, 6400) if full else (10, 3200)
    log.INDEX_EVERY = 3600.0
    names = ("wanted", "wanted, no index", "unwanted", "unwanted, no index", "ids")
    with scratch() as folder, receiving() as receiver:
        took: dict[str, list[_Cost]] = {name: [] for name in names}
        logs: dict[str, list[float]] = {name: [] for name in names}
        async with AsyncExitStack() as stack:
            opened: dict[str, Gateway] = {}
            for name in names:
                place = folder / name.replace(", ", "-").replace(" ", "-")
                place.mkdir()
                keep: Literal["all", "wanted"] = "wanted" if name == "ids" else "all"
                opened[name] = await stack.enter_async_context(gateway(place, keep=keep))
                await register(opened[name], [receiver.url(number) for number in range(LANES)])
                if not name.startswith("wanted"):
                    other = RegistrationChange(is_set=False, url=UNSET, events=("CALL",))
                    for number in range(LANES):
                        await opened[name].registrations.set(f"bench{number}", "default", other)
            for turn in range(turns + 1):
                for name in sorted(names, reverse=bool(turn % 2)):
                    cost = await _turn(opened[name], count, f"e{turn}", with_index="no index" not in name)
                    if turn:  # the first one warms up
                        took[name].append(cost)
            # From here on, the log only grows.
            checkpoints.INTERVAL = 3600.0
            for turn in range(LOG_TURNS):
                for name in names:
                    assert await opened[name].store.scrub()
                    await _turn(opened[name], count, f"log{turn}", with_index="no index" not in name)
                    logs[name].append(_size_of_log(opened[name]) / count)
    cpu = {name: [cost.cpu for cost in costs] for name, costs in took.items()}
    written = {name: [cost.bytes for cost in costs] for name, costs in took.items()}
    results = []
    for name, reference, text in (
        ("wanted", "wanted, no index", "without the index, in turn"),
        ("unwanted", "ids", "events.keep: wanted, in turn"),
    ):
        for found, what, unit in (
            (cpu, "CPU", "µs"),
            (written, "bytes written", "bytes"),
            (logs, "write-ahead log", "bytes"),
        ):
            ours, theirs, plain = found[name], found[reference], found[f"{name}, no index"]
            details = {"ratio": median(mine / other for mine, other in zip(ours, theirs, strict=True))}
            if name == "unwanted":
                details["ratio_without_payload"] = median(
                    (other + mine - bare) / other
                    for mine, bare, other in zip(ours, plain, theirs, strict=True)
                )
            results.append(
                Result(
                    name=f"the log: {name} event, {what}",
                    value=median(ours),
                    unit=unit,
                    reference=text,
                    reference_value=median(theirs),
                    better="less",
                    details={**details, "payload_bytes": float(len(DATA))},
                )
            )
    return results


async def _turn(opened: Gateway, count: int, tag: str, *, with_index: bool) -> _Cost:
    """Accept events, and wait until they are delivered and have their entries."""
    rows = [make_events(f"bench{number}", count // LANES, tag) for number in range(LANES)]
    log.INDEX_ROWS = INDEX_ROWS if with_index else 10**9
    written, began = _written(), time.process_time()
    async with trio.open_nursery() as nursery:
        for row in rows:
            nursery.start_soon(_accept, opened, row)
    await drained(opened)
    if with_index:
        await index_log(opened.store)
    return _Cost((time.process_time() - began) / count * 1e6, (_written() - written) / count)


def _size_of_log(opened: Gateway) -> int:
    return Path(f"{opened.settings.storage.path}-wal").stat().st_size


def _written() -> int:
    """How many bytes this process has written to files; sockets are not counted."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


async def _accept(opened: Gateway, events: list[Event]) -> None:
    for start in range(0, len(events), BATCH):
        await opened.events.accept(events[start : start + BATCH])
