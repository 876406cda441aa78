"""``kill -9`` while a network sends requests: what it repeats until it gets 200 is there once."""

import random
from pathlib import Path

import httpx
import pytest
import trio

from tests.crash.engines import Storage
from tests.crash.stage import DEADLINE, LOOK_AGAIN, Stage, staged

NUMBERS = 300
SENDERS = 4
NETWORK = """
import hookgw
import trio

class Network:
    name = "network"

    async def run(self, session):
        await session.set_state(hookgw.ConnectionState.OPEN)
        await trio.sleep_forever()

    async def send(self, session, message, *, key):
        raise hookgw.NotSupported("It only receives.")

    async def ingest(self, session, request):
        await session.emit("CALL", {}, event_id=request.body.decode())
        return hookgw.IngestResponse()

@hookgw.hookimpl
def hookgw_connectors():
    return [Network()]
"""

pytestmark = [pytest.mark.crash, pytest.mark.timeout(DEADLINE + 10)]


async def deliver(stage: Stage, path: str, event_id: str) -> None:
    """Send a request as networks do: again after a failure, but never after a 4xx."""
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=10) as client:
        while True:
            try:
                answer = await client.post(stage.target.url + path, content=event_id)
            except httpx.HTTPError:
                await trio.sleep(LOOK_AGAIN)
                continue
            if answer.status_code == 200:
                return
            assert answer.status_code == 503, (answer.status_code, answer.text)
            assert "retry-after" in answer.headers
            await trio.sleep(LOOK_AGAIN)


async def test_a_network_that_repeats_its_requests_loses_none(tmp_path: Path, storage: Storage) -> None:
    """Killed between the commit and the answer, and at random; the URL stays the same."""
    (tmp_path / "plugins").mkdir(mode=0o700)
    (tmp_path / "plugins" / "network.py").write_text(NETWORK)
    (tmp_path / "plugins" / "network.py").chmod(0o600)
    plugins = {"folders": [str(tmp_path / "plugins")], "names": []}
    numbers = [f"e{number}" for number in range(NUMBERS)]
    async with staged(tmp_path, storage, plugins=plugins) as stage:
        await stage.start()
        created = await stage.call(
            "POST", "/instance/create", {"instanceName": "shop", "integration": "network"}
        )
        await stage.call("POST", "/webhook/set/shop", {"url": stage.receiver.url, "events": ["CALL"]})
        await stage.call("GET", "/instance/connect/shop")

        async def send(share: list[str]) -> None:
            for event_id in share:
                await deliver(stage, created["ingestUrl"], event_id)

        async with trio.open_nursery() as nursery:
            for sender in range(SENDERS):
                nursery.start_soon(send, numbers[sender::SENDERS])
            await stage.receiver.wait_for(10)
            await stage.target.kill()
            for _ in range(2):
                # It may be gone before it says that it listens: events of the last process wait.
                await stage.target.spawn(doomed_at="dispatch")
                await stage.target.died()
            for _ in range(2):
                await stage.start()
                await trio.sleep(random.uniform(0.0, 0.3))
                await stage.target.kill()
            await stage.start()
        await stage.drained()
        # An event may arrive twice at the receiver, but it was accepted once.
        assert sorted(await stage.deliveries("delivered")) == sorted(numbers)
        assert set(stage.receiver.ids) == set(numbers)
