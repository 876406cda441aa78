"""Measures of size: lanes at rest, and a long backlog behind a dead receiver."""

import time

import msgspec
import trio

from hookgw import Event, Gateway
from tests.bench.engine import deliver, end_to_end
from tests.bench.parts import (
    FastReceiver,
    closed_port,
    drained,
    gateway,
    make_events,
    raise_file_limit,
    receiving,
    register,
    resident_mib,
    scratch,
)
from tests.bench.receiver import address_of
from tests.bench.results import Result, percentile
from tests.public.lanes import RETIRE_AFTER


async def lanes_at_rest(full: bool) -> list[Result]:
    """Memory of lanes that have delivered, keep their connections, and have nothing to do."""
    wanted = 10_000 if full else 2_000
    raise_file_limit(wanted + 200)
    with scratch() as folder, receiving() as receiver:
        async with gateway(folder) as opened:
            bare = resident_mib()
            names = await register(opened, [receiver.url(number) for number in range(wanted)])
            registered = resident_mib()
            for start in range(0, wanted, 500):
                await opened.events.accept(
                    [e for name in names[start : start + 500] for e in make_events(name, 1, "r")]
                )
                await drained(opened)
            awake = resident_mib()
            await trio.sleep(2 * RETIRE_AFTER)
            memory, lanes = resident_mib(), len(opened.lanes())
    return [
        Result(
            name=f"{wanted:,} lanes at rest, memory of the process",
            value=memory,
            unit="MiB",
            reference="the same gateway before them",
            reference_value=bare,
            better="less",
            details={
                "lanes": lanes,
                "mib_when_all_had_delivered": awake,
                "mib_with_registrations_only": registered,
                "kib_per_lane": (memory - registered) * 1024 / wanted,
            },
        )
    ]


ADDRESSES = 200
"""Addresses among which many lanes are spread: one host has few connections at a time."""


async def active_lanes(full: bool) -> list[Result]:
    """Many lanes at work at once, each with its connection, against the same number of events over 64."""
    wanted, each = (10_000, 10) if full else (1_000, 10)
    raise_file_limit(wanted + 200)
    with scratch() as folder, receiving(f"addresses={ADDRESSES}") as receiver:
        async with gateway(folder / "few") as opened:
            urls = [receiver.url(number) for number in range(64)]
            few, reference = await end_to_end(opened, urls, wanted * each)
        async with gateway(folder / "many") as opened:
            urls = [receiver.url(number, address_of(number % ADDRESSES)) for number in range(wanted)]
            names = await register(opened, urls)
            rows = [make_events(name, each, "e") for name in names]
            registered = resident_mib()
            # So much ahead that all lanes are at work at the same time.
            async with trio.open_nursery() as nursery:
                peak = _Peak()
                nursery.start_soon(peak.run)
                await opened.events.accept([e for name in names for e in make_events(name, 1, "warm")])
                await drained(opened)
                rate, details = await deliver(opened, rows, ahead=wanted * each)
                nursery.cancel_scope.cancel()
    return [
        Result(
            name=f"{wanted:,} lanes at work, CPU of an event",
            value=details["cpu_us_per_event"],
            unit="µs",
            reference="as many events over 64 lanes",
            reference_value=reference["cpu_us_per_event"],
            better="less",
            details={
                "events_per_s": rate,
                "events_per_s_over_64": few,
                "mib": peak.mib,
                "kib_per_lane": (peak.mib - registered) * 1024 / wanted,
            },
        )
    ]


class _Peak:
    """The most memory that this process has had."""

    def __init__(self) -> None:
        self.mib = 0.0

    async def run(self) -> None:
        while True:
            self.mib = max(self.mib, resident_mib())
            await trio.sleep(0.1)


async def registrations(full: bool) -> list[Result]:
    """Many registrations: how fast they are set, what they take, and what an event costs beside them."""
    wanted = 100_000 if full else 5_000
    with scratch() as folder, receiving() as receiver:
        busy = [receiver.url(number) for number in range(64)]
        async with gateway(folder / "few") as opened:
            reference, _ = await end_to_end(opened, busy, 20_000)
        async with gateway(folder / "many") as opened:
            bare, began = resident_mib(), time.perf_counter()
            urls = [receiver.url(number) for number in range(wanted)]
            await register(opened, urls, prefix="idle")
            seconds, memory = time.perf_counter() - began, resident_mib()
        began = time.perf_counter()
        async with gateway(folder / "many") as opened:
            start = time.perf_counter() - began
            rate, _ = await end_to_end(opened, busy, 20_000)
    return [
        Result(
            name=f"durable end to end beside {wanted:,} registrations",
            value=rate,
            unit="events/s",
            reference="the same without them",
            reference_value=reference,
            details={
                "set_per_s": wanted / seconds,
                "start_up_s": start,
                "kib_per_registration": (memory - bare) * 1024 / wanted,
                "mib": memory,
            },
        )
    ]


async def long_backlog(full: bool) -> list[Result]:
    """A backlog behind a dead receiver: memory, start-up, a lane beside it; then the receiver returns."""
    wanted = 1_000_000 if full else 30_000
    with scratch() as folder, receiving("record") as receiver, closed_port() as port:
        async with gateway(folder / "long") as opened:
            dead, alive = await register(opened, [f"http://127.0.0.1:{port}/", receiver.url("alive")])
            alone = await _probe(opened, alive, receiver, "alone")
            await opened.events.accept(make_events(dead, 1, "first"))
            before = resident_mib()
            began = time.perf_counter()
            await _pile_up(opened, dead, wanted)
            piled = time.perf_counter() - began
            after = resident_mib()
            beside = await _probe(opened, alive, receiver, "beside")
        began = time.perf_counter()
        async with gateway(folder / "long") as opened:
            start = time.perf_counter() - began
            rate, memory = await _drain(opened, dead, port, wanted)
        async with gateway(folder / "short") as opened:
            never_dead, _ = await end_to_end(opened, [receiver.url("one")], 20_000)
    return [
        Result(
            name=f"{wanted:,} pending, memory of the process",
            value=after,
            unit="MiB",
            reference="the same gateway before them",
            reference_value=before,
            better="less",
            details={"appended_per_s": wanted / piled, "start_up_s": start, "mib_after_drain": memory},
        ),
        Result(
            name=f"{wanted:,} pending, p99 of another lane",
            value=beside,
            unit="ms",
            reference="the same lane without them",
            reference_value=alone,
            better="less",
        ),
        Result(
            name=f"{wanted:,} pending, drain once the receiver is back",
            value=rate,
            unit="events/s",
            reference="durable end to end, one lane",
            reference_value=never_dead,
        ),
    ]


async def _drain(opened: Gateway, instance: str, port: int, count: int) -> tuple[float, float]:
    """Deliveries a second from the receiver's return to the last one on disk, and the memory then."""
    with receiving(f"port={port}") as back:
        began = time.perf_counter()
        await opened.registrations.resume(instance)
        await drained(opened)
        elapsed = time.perf_counter() - began
        arrived, _ = back.take()
    assert arrived > count, f"{arrived} of {count + 1} arrived"
    return arrived / elapsed, resident_mib()


async def _pile_up(opened: Gateway, instance: str, wanted: int) -> None:
    [model] = make_events(instance, 1, "model")
    for start in range(0, wanted, 5000):
        batch: list[Event] = [
            msgspec.structs.replace(model, id=f"p{number}")
            for number in range(start, min(start + 5000, wanted))
        ]
        await opened.events.accept(batch)


async def _probe(opened: Gateway, instance: str, receiver: FastReceiver, tag: str) -> float:
    """The p99 from accept to arrival of single events, at 200 a second, in milliseconds."""
    receiver.take()
    called: dict[str, int] = {}
    began = trio.current_time()
    for number, event in enumerate(make_events(instance, 1000, tag)):
        await trio.sleep_until(began + number / 200)
        called[event.id] = time.monotonic_ns()
        await opened.events.accept([event])
    arrivals: dict[str, int] = {}
    with trio.fail_after(30):
        while len(arrivals) < len(called):
            await trio.sleep(0.05)
            arrivals.update(receiver.take()[1])
    return percentile([(arrivals[event_id] - at) / 1e6 for event_id, at in called.items()], 0.99)
