"""A gateway that is killed at a chosen moment, its receiver, and what is asked of it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from hookgw.testing import Receiver, open_receiver
from tests.crash.engines import Storage
from tests.crash.target import Target
from tests.support.gateway_process import KEY, write_config
from tests.support.ports import own_address

# Ends a test that hangs. Each takes some seconds, and twenty times as long where others want both cores.
DEADLINE = 180.0
LOOK_AGAIN = 0.02
LONG_AGO = "2000-01-01T00:00:00Z"
DELIVERY = {"allow_networks": ["127.0.0.0/8"], "unreachable_first_wait": "50ms"}


class Stage:
    """A gateway that is killed, its receiver, and what is asked of it over HTTP."""

    def __init__(self, target: Target, receiver: Receiver, storage: Storage) -> None:
        self.target = target
        self.receiver = receiver
        self._storage = storage

    async def start(self, doomed_at: str | None = None) -> None:
        await self.target.spawn(doomed_at=doomed_at)
        await self.target.ready()

    async def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The decoded answer.

        Raises:
            httpx.HTTPError: the process died meanwhile.
        """
        async with httpx.AsyncClient(
            headers={"apikey": KEY}, trust_env=False, verify=False, timeout=30
        ) as client:
            found = await client.request(method, self.target.url + path, json=body, params=query)
            # On PostgreSQL, a process takes its instances a moment after its start.
            while found.status_code == 503 and self._storage.file is None:
                await trio.sleep(LOOK_AGAIN)
                found = await client.request(method, self.target.url + path, json=body, params=query)
        assert found.status_code < 300, found.text
        return found.json()

    async def call_in_vain(self, path: str, body: Any) -> None:
        """Ask for what the process does not live to answer."""
        with pytest.raises(httpx.HTTPError):
            await self.call("POST", path, body)

    async def register(self) -> None:
        await self.call("POST", "/webhook/set/shop", {"url": self.receiver.url})

    async def deliveries(self, state: str) -> list[str]:
        """The event ids of deliveries in that state, in the order of acceptance."""
        found: list[str] = []
        query = {"state": state, "limit": 1000}
        while True:
            page = await self.call("GET", "/delivery/list/shop", **query)
            found += [delivery["eventId"] for delivery in page["deliveries"]]
            if page["cursor"] is None:
                return found[::-1]
            query["cursor"] = page["cursor"]

    async def log(self, **query: Any) -> list[str]:
        """The ids of the events of the log, in order."""
        found: list[str] = []
        query |= {"order": "oldest", "limit": 1000}
        while True:
            page = await self.call("GET", "/event/list/shop", **query)
            found += [event["id"] for event in page["events"]]
            if page["cursor"] is None:
                return found
            query["cursor"] = page["cursor"]

    async def drained(self) -> None:
        """Wait until nothing is pending."""
        query = {"state": "pending", "limit": 1}
        while (await self.call("GET", "/delivery/list/shop", **query))["deliveries"]:  # noqa: ASYNC110
            await trio.sleep(LOOK_AGAIN)


@asynccontextmanager
async def staged(
    folder: Path,
    storage: Storage,
    *,
    plugins: Mapping[str, Any] = {},
    events: Mapping[str, Any] = {},
    **more: Any,
) -> AsyncIterator[Stage]:
    with trio.fail_after(DEADLINE):
        async with open_receiver() as receiver, trio.open_nursery() as nursery:
            settings = {**storage.settings, **more}
            config = write_config(
                folder,
                server=own_address(),
                delivery=DELIVERY,
                storage=settings,
                plugins=plugins,
                events=events,
            )
            stage = Stage(Target(nursery, config), receiver, storage)
            yield stage
            assert await stage.target.terminate() == 0


def event(event_id: str) -> dict[str, Any]:
    return {"event": "CALL", "id": event_id, "data": {}}


def batch(count: int) -> list[dict[str, Any]]:
    return [event(f"e{number}") for number in range(count)]


def ids(events: Sequence[dict[str, Any]]) -> list[str]:
    return [one["id"] for one in events]
