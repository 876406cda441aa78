"""Calls that make much work: deletes, replays, and names without end."""

from __future__ import annotations

from itertools import count

import msgspec
import trio

from tests.isolation.attack import attack
from tests.isolation.attacks.reads import with_history
from tests.isolation.target import NAME, Refused, Target, batch, emit, event, hang, ok
from tests.isolation.wire import Connection, render

ANY = (*range(200, 300), 404, 409, 429, 503)


async def fill(target: Target, key: str, events: int) -> None:
    """Emit that many small events."""
    request = emit(batch([event()] * 1000), key)
    async with Connection(target.port, "127.0.0.2") as connection:
        for _ in range(events // 1000):
            status, answer = await connection.exchange(request)
            if status != 202:
                raise Refused(f"{status} {answer!r}")


@attack("deletes", "deletes an instance with 20,000 pending deliveries (--full: 500,000), and fills it anew")
async def deletes(target: Target) -> None:
    url = await target.receiver(hang)
    pending = 500_000 if target.full else 20_000

    async def make() -> None:
        key = await target.tenant()
        await target.register(url)
        await fill(target, key, pending)

    await make()
    await target.begin()
    while True:
        await target.call("DELETE", f"/instance/delete/{NAME}", right=ANY)
        target.counts["deleted"] += 1
        # While it is being deleted, its name is taken.
        while True:
            try:
                await make()
            except Refused:
                await trio.sleep(0.2)
            else:
                break


@attack("disables", "disables a registration with 20,000 pending deliveries and enables it again, in a loop")
async def disables(target: Target) -> None:
    key = await target.tenant()
    url = await target.receiver(hang)
    await target.register(url)
    await fill(target, key, 20_000)
    await target.begin()
    while True:
        for enabled in (False, True):
            body = {"url": url, "enabled": enabled}
            await target.call("POST", f"/webhook/set/{NAME}", body, key=key, right=ANY)
            target.counts["changed"] += 1


@attack("repartitions", "changes ordering and concurrency of a registration with 20,000 pending, in a loop")
async def repartitions(target: Target) -> None:
    key = await target.tenant()
    url = await target.receiver(hang)
    await target.register(url)
    await fill(target, key, 20_000)
    await target.begin()
    for number in count():
        body = {"url": url, "ordering": ("none", "chat", "url")[number % 3], "concurrency": 1 + number % 64}
        await target.call("POST", f"/webhook/set/{NAME}", body, key=key, right=ANY)
        target.counts["changed"] += 1
        await trio.sleep(0.02)


@attack("replays", "replays 10,000 delivered events (--full: 100,000) in a loop")
async def replays(target: Target) -> None:
    key = await with_history(target, 100_000 if target.full else 10_000)
    body = msgspec.json.encode({"since": "1d", "state": "all"})
    request = render("POST", f"/delivery/replay/{NAME}", body, key=key)
    await target.begin()
    await target.flood(lambda: request, connections=4, pause=0.02)


@attack("resends", "resends delivered events in a loop")
async def resends(target: Target) -> None:
    key = await with_history(target, 1000)
    page = await target.call("GET", f"/delivery/list/{NAME}?limit=1000", key=key)
    ids = [delivery["id"] for delivery in page["deliveries"]]
    numbers = count()
    await target.begin()
    await target.flood(
        lambda: render("POST", f"/delivery/resend/{NAME}/{ids[next(numbers) % len(ids)]}", key=key),
        connections=8,
        pause=0.02,
    )


@attack("churn", "creates and deletes instances in a loop, each with a registration and an event")
async def churn(target: Target) -> None:
    url = await target.receiver(ok)
    await target.begin()
    for number in count():
        name = f"churn{number % 50}"
        key = await target.tenant(name)
        await target.register(url, name=name)
        await target.call("POST", f"/event/emit/{name}", {"event": "CALL", "data": {}}, key=key)
        await target.call("DELETE", f"/instance/delete/{name}", right=ANY)
        target.counts["created and deleted"] += 1


@attack("names", "uses 10,000 names once each: labels that are set, and removed")
async def names(target: Target) -> None:
    key = await target.tenant()
    url = await target.receiver(ok)
    await target.begin()

    async def use(numbers: count[int], step: int) -> None:
        async with Connection(target.port, f"127.0.0.{2 + step}") as connection:
            for number in numbers:
                for method, path, body in (
                    ("POST", f"/webhook/set/{NAME}/n{number}", {"url": url}),
                    ("POST", f"/event/emit/{NAME}", {"event": "CALL", "data": {}}),
                    ("DELETE", f"/webhook/delete/{NAME}/n{number}", None),
                ):
                    content = b"" if body is None else msgspec.json.encode(body)
                    status, _ = await connection.exchange(render(method, path, content, key=key))
                    target.counts[f"{method} {status}"] += 1
                    await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for step in range(4):
            nursery.start_soon(use, count(step, 4), step)


@attack("labels", "16 labels on one instance, so that a batch of 1,000 events becomes 16,000 deliveries")
async def labels(target: Target) -> None:
    key = await target.tenant()
    url = await target.receiver(ok)
    for number in range(16):
        await target.register(f"{url}{number}", label=f"l{number}")
    request = emit(batch([event()] * 1000), key)
    await target.begin()
    await target.flood(lambda: request, connections=1, pause=1)


@attack("keys", "creates and revokes keys in a loop")
async def keys(target: Target) -> None:
    key = await target.tenant()
    await target.begin()
    while True:
        await target.call("POST", f"/key/create/{NAME}", {"name": "other"}, key=key, right=ANY)
        await target.call("DELETE", f"/key/delete/{NAME}/other", key=key, right=ANY)
        target.counts["created and revoked"] += 1
