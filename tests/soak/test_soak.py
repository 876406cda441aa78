"""Minutes of constant load under random faults, kills, restarts, resends and replays; then the account.

Environment: ``HOOKGW_SOAK_MINUTES`` (without it nothing runs), ``HOOKGW_SOAK_SEED`` (a random one; it is
printed).
"""

import os
import random
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from hookgw.testing import Answer, Received, Receiver, answer, hang, open_receiver, reset
from tests.crash.load import Producer
from tests.crash.target import Target
from tests.soak.account import Account, Arrival, settle_up
from tests.support.gateway_process import KEY, write_config
from tests.support.ports import own_address

MINUTES = float(os.environ.get("HOOKGW_SOAK_MINUTES", "0"))
SEED = int(os.environ.get("HOOKGW_SOAK_SEED", str(random.SystemRandom().randrange(10**6))))
INSTANCES, LABELS, RECEIVERS = 6, 3, 4
EVENTS_PER_SECOND = 15.0
"""Of each instance."""
AFTERMATH = 120.0
"""Seconds that the end may take: recovering, draining, counting."""
DELIVERY = {
    "allow_networks": ["127.0.0.0/8"],
    "schedule": ["50ms", "100ms", "200ms"],
    "unreachable_first_wait": "50ms",
    "unreachable_max_wait": "500ms",
    "retry_after_max": "1s",
    "timeout": "500ms",
}
OK = answer()
FAULTS = (
    answer(500),
    answer(404),
    answer(302, headers={"location": "http://127.0.0.1:9/"}),
    answer(422),
    answer(503, headers={"retry-after": "0.2"}),
    answer(200, wait=0.05),
    answer(200).cut(12),
    answer(200, b"x" * 2000).cut(1000),
    answer(200, keep_alive=False),
    reset(),
    hang(),
)

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(not MINUTES, reason="nox -s soak runs it"),
    pytest.mark.timeout(MINUTES * 60 + AFTERMATH + 60),
    # httpx leaves the body's generator behind when the connection breaks while it sends.
    pytest.mark.filterwarnings(
        r"ignore:.*async_generator object ByteStream:pytest.PytestUnraisableExceptionWarning"
    ),
]


class Soak:
    """The gateway, its receivers, and all that is done to them."""

    def __init__(self, target: Target, receivers: list[Receiver], chance: random.Random) -> None:
        self.target = target
        self.receivers = receivers
        self.chance = chance
        self.healthy = False
        self.seen: list[Arrival] = []
        self.done: Counter[str] = Counter()
        for number, receiver in enumerate(receivers):
            receiver.default = self._behaviour(0.15 * number)

    def _behaviour(self, failing: float) -> Callable[[Received], Answer]:
        def choose(request: Received) -> Answer:
            bad = not self.healthy and self.chance.random() < failing
            chosen = self.chance.choice(FAULTS) if bad else OK
            registration = request.path.strip("/")
            self.seen.append(Arrival(request.event_id or "", registration, _is_2xx(chosen)))
            return chosen

        return choose

    async def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The decoded answer; ``None`` where the gateway is down, or says that it cannot now."""
        try:
            async with httpx.AsyncClient(headers={"apikey": KEY}, trust_env=False, timeout=30) as client:
                found = await client.request(method, self.target.url + path, json=body, params=query)
        except httpx.HTTPError:
            return None
        assert found.status_code < 300 or found.status_code in (404, 409, 503), found.text
        return found.json() if found.status_code < 300 else None

    async def register(self) -> None:
        """Give every instance all labels; each registration has its own path."""
        for instance in range(INSTANCES):
            for label in range(LABELS):
                receiver = self.receivers[(instance + label) % len(self.receivers)]
                url = f"{receiver.url}i{instance}-{label}"
                assert await self.call("POST", f"/webhook/set/i{instance}/l{label}", {"url": url})

    async def upset(self, until: float) -> None:
        """Do something to it at random moments."""
        while trio.current_time() < until:
            await trio.sleep(self.chance.uniform(0.1, 1.0))
            act = self.chance.choice(
                [self.kill, self.restart, self.bounce, self.resend, self.resend, self.replay]
            )
            await act()
            self.done[act.__name__] += 1

    async def kill(self) -> None:
        await self.target.kill()
        await self.target.spawn()
        await self.target.ready()

    async def restart(self) -> None:
        assert await self.target.terminate() == 0
        await self.target.spawn()
        await self.target.ready()

    async def bounce(self) -> None:
        """A receiver goes down for a moment."""
        receiver = self.chance.choice(self.receivers)
        await receiver.stop_listening()
        await trio.sleep(self.chance.uniform(0.05, 0.5))
        await receiver.restart()

    async def resend(self) -> None:
        instance = f"i{self.chance.randrange(INSTANCES)}"
        state = self.chance.choice(["dead", "delivered"])
        page = await self.call("GET", f"/delivery/list/{instance}", state=state, limit=20)
        if page and page["deliveries"]:
            chosen = self.chance.choice(page["deliveries"])["id"]
            await self.call("POST", f"/delivery/resend/{instance}/{chosen}")

    async def replay(self) -> None:
        instance = f"i{self.chance.randrange(INSTANCES)}"
        await self.call(
            "POST", f"/delivery/replay/{instance}", {"since": "2000-01-01T00:00:00Z", "state": "dead"}
        )

    async def drain(self) -> None:
        """Make all receivers good and wait until nothing is pending."""
        self.healthy = True
        for number in range(INSTANCES):
            while await self._pending(f"i{number}"):  # noqa: ASYNC110  (the process tells nobody)
                await trio.sleep(0.1)

    async def _pending(self, instance: str) -> bool:
        page = await self.call("GET", f"/delivery/list/{instance}", state="pending", limit=1)
        return bool(page["deliveries"])

    async def listed(self, instance: str) -> list[dict[str, Any]]:
        """All deliveries of an instance, with the path of their URL as the registration's name."""
        found: list[dict[str, Any]] = []
        query: dict[str, Any] = {"limit": 1000}
        while True:
            page = await self.call("GET", f"/delivery/list/{instance}", **query)
            found += [{**one, "registrationId": one["url"].rpartition("/")[2]} for one in page["deliveries"]]
            if page["cursor"] is None:
                return found
            query["cursor"] = page["cursor"]


def _is_2xx(chosen: Answer) -> bool:
    """Whether the gateway can have seen a 2xx: a fault may come after the head."""
    sent = b"".join(getattr(step, "data", b"") for step in chosen.steps)
    return sent.startswith(b"HTTP/1.1 200") and b"\r\n\r\n" in sent


async def test_every_event_is_accounted_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\nsoak: {MINUTES:g} minutes, seed {SEED}")
    with trio.fail_after(MINUTES * 60 + AFTERMATH):
        async with AsyncExitStack() as stack:
            receivers = [await stack.enter_async_context(open_receiver()) for _ in range(RECEIVERS)]
            nursery = await stack.enter_async_context(trio.open_nursery())
            target = Target(nursery, write_config(tmp_path, server=own_address(), delivery=DELIVERY))
            await target.spawn()
            await target.ready()
            soak = Soak(target, receivers, random.Random(SEED))
            await soak.register()
            producers = [
                Producer(lambda: target.url, f"i{number}", EVENTS_PER_SECOND) for number in range(INSTANCES)
            ]
            async with trio.open_nursery() as load:
                for producer in producers:
                    load.start_soon(producer.run)
                await soak.upset(trio.current_time() + MINUTES * 60)
                for producer in producers:
                    producer.enough.set()
            await soak.drain()
            accepted = {p.instance: [f"{p.instance}-{n}" for n in range(p.emitted)] for p in producers}
            listed = {instance: await soak.listed(instance) for instance in accepted}
            assert await target.terminate() == 0
    registrations = {f"i{i}": [f"i{i}-{label}" for label in range(LABELS)] for i in range(INSTANCES)}
    account = settle_up(accepted, listed, registrations, soak.seen)
    assert account.states["pending"] == 0
    with capsys.disabled():
        print(story(account, soak.done, producers))


def story(account: Account, done: Counter[str], producers: list[Producer]) -> str:
    """The figures, for people."""
    states = ", ".join(f"{count:,} {state}" for state, count in account.states.most_common())
    acts = ", ".join(f"{act} {count}" for act, count in done.most_common())
    events = sum(producer.emitted for producer in producers)
    return (
        f"{events:,} events accepted, {account.accepted:,} deliveries = {states}; each once.\n"
        f"{account.arrivals:,} requests arrived; {account.repeats:,} repeats after a 2xx.\n"
        f"Done to it: {acts}."
    )
