"""The plugin rabbitmq on a real RabbitMQ, which is killed as hookgw is; read by RabbitMQ's own client."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from tests.networks.gateway import Gateway, running_gateway
from tests.networks.rabbitmq import RabbitMq, is_installed

EVENTS, ROUNDS = 600, 3
"""Events in all, and kills of each side meanwhile."""
INSTANCE, KIND = "loja1", "MESSAGES_UPSERT"

pytestmark = [pytest.mark.networks, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMq]:
    if not is_installed():
        pytest.skip("RabbitMQ is not installed: apt-get install rabbitmq-server")
    pytest.importorskip("pika", reason="pika is not installed: run nox -s networks")
    node = RabbitMq(tmp_path_factory.mktemp("rabbitmq"))
    try:
        node.start()
        yield node
    finally:
        node.close()


@pytest.fixture
async def gateway(tmp_path: Path, rabbit: RabbitMq) -> AsyncIterator[Gateway]:
    delivery = {
        "allow_networks": ["127.0.0.0/8"],
        "schedule": ["200ms"] * 2,
        "unreachable_max_wait": "200ms",
        "timeout": "10s",
    }
    with trio.fail_after(500):
        async with running_gateway(tmp_path, {}, delivery=delivery) as gateway:
            await gateway.call("POST", "instance/create", {"instanceName": INSTANCE}, status=201)
            yield gateway


async def in_thread(function: Any, *arguments: Any) -> Any:
    return await trio.to_thread.run_sync(partial(function, *arguments))


def bind_queue(rabbit: RabbitMq, name: str, key: str) -> None:
    import pika

    connection = pika.BlockingConnection(pika.URLParameters(f"{rabbit.url()}%2F"))
    channel = connection.channel()
    channel.queue_declare(name, durable=True)
    channel.queue_bind(name, "amq.topic", key)
    connection.close()


def read_queue(rabbit: RabbitMq, name: str) -> list[tuple[Any, bytes]]:
    """Take all messages of a queue: their properties and bodies."""
    import pika

    connection = pika.BlockingConnection(pika.URLParameters(f"{rabbit.url()}%2F"))
    channel = connection.channel()
    found = []
    while True:
        method, properties, body = channel.basic_get(name, auto_ack=True)
        if method is None:
            break
        found.append((properties, body))
    connection.close()
    return found


async def register(gateway: Gateway, url: str, **fields: Any) -> None:
    await gateway.call("POST", f"webhook/set/{INSTANCE}", {"url": url, **fields}, status=201)


async def emit(gateway: Gateway, event_id: str, number: int) -> None:
    """Emit an event, again and again while the gateway is down."""
    body = {"event": KIND, "data": {"n": number}, "id": event_id}
    while True:
        try:
            answer = await gateway.try_call("POST", f"event/emit/{INSTANCE}", body)
        except httpx.TransportError:
            await trio.sleep(0.05)
            continue
        if answer.status_code == 202:
            return
        await trio.sleep(0.05)


async def wait_until_nothing_is_pending(gateway: Gateway) -> None:
    while True:
        try:
            answer = await gateway.call("GET", f"delivery/list/{INSTANCE}?state=pending&limit=1")
        except httpx.TransportError:
            await trio.sleep(0.2)
            continue
        if not answer["deliveries"]:
            return
        await trio.sleep(0.2)


async def last_attempt(gateway: Gateway, event_id: str) -> dict[str, Any]:
    while True:
        found = await gateway.call("GET", f"delivery/find/{INSTANCE}/{event_id}")
        if found["attempts"]:
            attempt: dict[str, Any] = found["attempts"][-1]
            return attempt
        await trio.sleep(0.05)


async def test_kills_of_both_sides_lose_nothing_and_keep_the_order(
    gateway: Gateway, rabbit: RabbitMq
) -> None:
    await in_thread(bind_queue, rabbit, "all", f"{INSTANCE}.*")
    await register(gateway, rabbit.url())
    ids = [f"event_{number}" for number in range(EVENTS)]
    progress = trio.Event()
    done = 0

    async def produce() -> None:
        nonlocal done
        for number, event_id in enumerate(ids):
            await emit(gateway, event_id, number)
            done += 1
            if done == EVENTS // 10:
                progress.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce)
        await progress.wait()
        for _ in range(ROUNDS):
            await gateway.kill()
            await gateway.start()
            await trio.sleep(0.3)
            await in_thread(rabbit.kill)
            await trio.sleep(0.3)
            await in_thread(rabbit.start)
    await wait_until_nothing_is_pending(gateway)
    dead = await gateway.call("GET", f"delivery/list/{INSTANCE}?state=dead&limit=1")
    assert dead["deliveries"] == []
    messages = await in_thread(read_queue, rabbit, "all")
    arrived = [properties.message_id for properties, _ in messages]
    print(f"{len(arrived)} messages for {EVENTS} events: {len(arrived) - EVENTS} repeated")
    assert list(dict.fromkeys(arrived)) == ids
    # A kill of the broker repeats at most the message in flight, as often as the broker ends before it
    # confirms. A kill of hookgw repeats one row: what had been confirmed, and was not yet on disk.
    numbers = [ids.index(event_id) for event_id in arrived]
    steps = [after - before for before, after in pairwise(numbers)]
    assert sum(step < 0 for step in steps) <= ROUNDS
    assert len({after for before, after in pairwise(numbers) if before == after}) <= 2 * ROUNDS


async def test_a_message_over_tls_with_a_private_authority(gateway: Gateway, rabbit: RabbitMq) -> None:
    await in_thread(bind_queue, rabbit, "tls", "over.tls")
    options = {"rabbitmq": {"routing_key": "over.tls"}}
    await register(gateway, rabbit.url(tls=True), plugins=options, headers={"x-shop": "one"})
    await emit(gateway, "tls_1", 1)
    attempt = await last_attempt(gateway, "tls_1")
    assert attempt["outcome"] == "unreachable"
    assert "set tls.ca of the registration" in attempt["error"]
    ca = rabbit.authority.cert_pem.bytes().decode()
    await register(gateway, rabbit.url(tls=True), plugins=options, headers={"x-shop": "one"}, tls={"ca": ca})
    await wait_until_nothing_is_pending(gateway)
    ((properties, body),) = await in_thread(read_queue, rabbit, "tls")
    assert b'"n":1' in body
    assert (properties.message_id, properties.type, properties.delivery_mode) == ("tls_1", KIND, 2)
    assert (properties.headers["x-shop"], properties.app_id) == ("one", "hookgw")
    assert properties.headers["webhook-signature"].startswith("v1,")


@pytest.mark.parametrize(
    ("user", "options", "outcome", "text"),
    [
        ("guest:guest", {"routing_key": "to.nobody"}, "failed", "312 NO_ROUTE"),
        ("guest:guest", {"exchange": "nowhere"}, "failed", "no exchange 'nowhere'"),
        ("guest:wrong-password", {}, "unreachable", "ACCESS_REFUSED"),
    ],
)
async def test_what_the_broker_refuses_is_shown_in_its_words(
    gateway: Gateway, rabbit: RabbitMq, user: str, options: dict[str, str], outcome: str, text: str
) -> None:
    await register(gateway, rabbit.url(user=user), plugins={"rabbitmq": options})
    await emit(gateway, "refused", 1)
    attempt = await last_attempt(gateway, "refused")
    assert attempt["outcome"] == outcome
    shown = f"{attempt['error']} {attempt.get('answer')}"
    assert text in shown
    assert "wrong-password" not in shown
