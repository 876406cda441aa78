"""Measures of changes: a registration changes while much is pending for it."""

import time

import trio

from tests.bench.parts import FastReceiver, closed_port, gateway, make_events, receiving, register, scratch
from tests.bench.results import Result
from tests.public.records import Ordering
from tests.public.webhooks import RegistrationChange

PENDING = 100_000


async def changes(full: bool) -> list[Result]:
    """Change the URL, then the number of partitions, with 100,000 pending behind a dead receiver."""
    results = []
    for name, ordering, concurrency in (
        ("another URL", Ordering.URL, 1),
        ("from 1 to 16 partitions by chat", Ordering.CHAT, 16),
        ("from 1 to 16 partitions without order", Ordering.NONE, 16),
    ):
        with scratch() as folder, receiving("record") as receiver, closed_port() as port:
            async with gateway(folder) as opened:
                [instance] = await register(opened, [f"http://127.0.0.1:{port}/"])
                for start in range(0, PENDING, 5_000):
                    await opened.events.accept(make_events(instance, 5_000, f"p{start}"))
                change = RegistrationChange(
                    url=receiver.url("new"), ordering=ordering, concurrency=concurrency
                )
                began = time.perf_counter()
                await opened.registrations.set(instance, "default", change)
                answered = time.perf_counter() - began
                await _first_arrival(receiver)
                first = time.perf_counter() - began
        results.append(
            Result(
                name=f"{PENDING:,} pending, {name}: first delivery",
                value=first,
                unit="s",
                reference="the answer to the change",
                reference_value=answered,
                better="less",
            )
        )
    return results


async def _first_arrival(receiver: FastReceiver) -> None:
    with trio.fail_after(60):
        while not receiver.take()[0]:  # noqa: ASYNC110 - the receiver is another process
            await trio.sleep(0.01)
