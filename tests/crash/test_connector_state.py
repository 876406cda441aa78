"""``kill -9`` of a connector that continues from its state: its events are exactly those before the state."""

import random
from pathlib import Path
from typing import Any

import pytest
import trio

from hookgw.testing import Received
from tests.crash.engines import Storage
from tests.crash.stage import DEADLINE, staged

LAST = 600
COUNTER = f"""
import hookgw
import trio

class Counter:
    \"\"\"Raises events with numbers, three at a time, from the number that it kept.

    The events have no ids of the connector's: nothing but the state keeps a number from coming twice.
    \"\"\"

    name = "counter"

    async def run(self, session):
        state = await session.load_state() or {{"next": 0}}
        await session.set_state(hookgw.ConnectionState.OPEN)
        while (first := state["next"]) < {LAST}:
            state = {{"next": first + 3}}
            events = [hookgw.NewEvent(kind="CALL", data={{"n": n}}) for n in range(first, first + 3)]
            await session.emit_all(events, state=state)
        await trio.sleep_forever()

    async def send(self, session, message, *, key):
        raise hookgw.NotSupported("It only counts.")

@hookgw.hookimpl
def hookgw_connectors():
    return [Counter()]
"""

pytestmark = [pytest.mark.crash, pytest.mark.timeout(DEADLINE + 10)]


def firsts(requests: list[Received]) -> list[int]:
    """Return the numbers of the events, each once, in the order in which they first came."""
    by_id: dict[str | None, Any] = {}
    for request in requests:
        by_id.setdefault(request.event_id, request.json["data"]["n"])
    return list(by_id.values())


async def test_events_and_state_are_one(tmp_path: Path, storage: Storage) -> None:
    """Killed within the commit, right after it, and at random: no number is missing, or there twice."""
    (tmp_path / "plugins").mkdir(mode=0o700)
    (tmp_path / "plugins" / "counter.py").write_text(COUNTER)
    (tmp_path / "plugins" / "counter.py").chmod(0o600)
    plugins = {"folders": [str(tmp_path / "plugins")], "names": []}
    async with staged(tmp_path, storage, plugins=plugins) as stage:
        await stage.start()
        body = {"instanceName": "shop", "integration": "counter"}
        await stage.call("POST", "/instance/create", body)
        await stage.call("POST", "/webhook/set/shop", {"url": stage.receiver.url, "events": ["CALL"]})
        await stage.target.kill()
        await stage.start()
        await stage.call("GET", "/instance/connect/shop")
        await stage.receiver.wait_for(10)
        await stage.target.kill()
        for moment in ("state:before", "state:after", "dispatch", "state:before", "dispatch", "state:after"):
            await stage.target.spawn(doomed_at=moment)
            await stage.target.died()
            seen = firsts(stage.receiver.requests)
            assert seen == list(range(len(seen)))
        for _ in range(3):
            await stage.start()
            await trio.sleep(random.uniform(0.0, 0.3))
            await stage.target.kill()
        await stage.start()
        while len(firsts(stage.receiver.requests)) < LAST:
            await stage.receiver.wait_for(len(stage.receiver.requests) + 1)
        await stage.drained()
        assert firsts(stage.receiver.requests) == list(range(LAST))
