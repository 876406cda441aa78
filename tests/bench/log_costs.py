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
from hookgw.webhooks import RegistrationChange
from tests.bench.parts import DATA, drained, gateway, make_events, receiving, register, scratch
from tests.bench.results import Result

INDEX_ROWS = log.INDEX_ROWS
LANES = 64
BATCH = 8


class _Cost(NamedTuple):
    """Of an event: processor time in µs, and bytes written to files: the log, and its folding."""

    cpu: float
    bytes: float


async def log_costs(full: bool) -> list[Result]:
    """Wanted and unwanted events with the log, beside wanted ones without an index and bare ids."""
    turns, count = (30, 6400) if full else (10, 3200)
    log.INDEX_EVERY = 3600.0
    with scratch() as folder, receiving() as receiver:
        took: dict[str, list[_Cost]] = {name: [] for name in ("wanted", "no index", "unwanted", "ids")}
        async with AsyncExitStack() as stack:
            opened: dict[str, Gateway] = {}
            for name in took:
                place = folder / name.replace(" ", "-")
                place.mkdir()
                keep: Literal["all", "wanted"] = "wanted" if name == "ids" else "all"
                opened[name] = await stack.enter_async_context(gateway(place, keep=keep))
                await register(opened[name], [receiver.url(number) for number in range(LANES)])
                if name in ("unwanted", "ids"):
                    other = RegistrationChange(is_set=False, url=UNSET, events=("CALL",))
                    for number in range(LANES):
                        await opened[name].registrations.set(f"bench{number}", "default", other)
            for turn in range(turns + 1):
                for name in sorted(took, reverse=bool(turn % 2)):
                    cost = await _turn(opened[name], count, f"e{turn}", with_index=name != "no index")
                    if turn:  # the first one warms up
                        took[name].append(cost)
    results = []
    for name, reference, text in (
        ("wanted", "no index", "without the index, in turn"),
        ("unwanted", "ids", "events.keep: wanted, in turn"),
    ):
        for field, unit in (("cpu", "µs"), ("bytes", "bytes")):
            ours, theirs = ([getattr(cost, field) for cost in took[one]] for one in (name, reference))
            what = "CPU" if field == "cpu" else "bytes written"
            results.append(
                Result(
                    name=f"the log: {name} event, {what}",
                    value=median(ours),
                    unit=unit,
                    reference=text,
                    reference_value=median(theirs),
                    better="less",
                    details={
                        "ratio": median(mine / other for mine, other in zip(ours, theirs, strict=True)),
                        "payload_bytes": float(len(DATA)),
                    },
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
        await opened.store.index_log()
    return _Cost((time.process_time() - began) / count * 1e6, (_written() - written) / count)


def _written() -> int:
    """How many bytes this process has written to files; sockets are not counted."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


async def _accept(opened: Gateway, events: list[Event]) -> None:
    for start in range(0, len(events), BATCH):
        await opened.events.accept(events[start : start + BATCH])
