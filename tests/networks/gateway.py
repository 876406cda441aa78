"""``hookgw serve`` with instances on a real network, and the receiver of their events."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import trio

from hookgw.testing import Receiver, open_receiver
from tests.crash.target import Target
from tests.support.gateway_process import KEY, write_config
from tests.support.ports import free_port

RECEIVER = "127.0.0.2"
"""The address of the receiver; Linux answers at all of 127.0.0.0/8."""
_DELIVERY = {
    # The receiver alone. The network's server has another address of this machine, which only
    # plugins.options.<plugin>.servers allows.
    "allow_networks": [f"{RECEIVER}/32"],
    "schedule": ["20ms"] * 40,
    "unreachable_max_wait": "200ms",
}


class Gateway:
    """A gateway process that can be killed and started again.

    Attributes:
        receiver: gets the events of all instances.
    """

    def __init__(self, target: Target, receiver: Receiver, http: httpx.AsyncClient) -> None:
        self.receiver = receiver
        self._target = target
        self._http = http

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._target.url

    async def start(self) -> None:
        """Start the process, and wait until it listens."""
        await self._target.spawn()
        await self._target.ready()

    async def kill(self) -> None:
        """``kill -9``."""
        await self._target.kill()

    async def call(
        self, method: str, path: str, body: Any = None, *, status: int = 200, key: str = ""
    ) -> Any:
        """Make a request, whose answer must have that status; return the answer's JSON."""
        answer = await self.try_call(method, path, body, key=key)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def try_call(self, method: str, path: str, body: Any = None, *, key: str = "") -> httpx.Response:
        """Make a request, and return whatever is answered."""
        headers = {"idempotency-key": key} if key else {}
        return await self._http.request(method, f"{self._target.url}/{path}", json=body, headers=headers)

    async def create(self, instance: str, integration: str, **options: Any) -> str:
        """Create an instance whose events the receiver gets; return its ``ingestUrl``, or an empty text."""
        body = {"instanceName": instance, "integration": integration, **options}
        created = await self.call("POST", "instance/create", body, status=201)
        await self.call("POST", f"webhook/set/{instance}", {"url": self.receiver.url}, status=201)
        url: str = created.get("ingestUrl", "")
        return url

    async def connect(self, instance: str, integration: str, **options: Any) -> str:
        """Create an instance, connect it, and wait until it is open; return as :meth:`create`."""
        url = await self.create(instance, integration, **options)
        await self.call("GET", f"instance/connect/{instance}")
        await self.wait_for_state(instance, "open")
        return url

    async def wait_for_state(self, instance: str, state: str) -> dict[str, Any]:
        while True:
            answer = await self.call("GET", f"instance/connectionState/{instance}")
            if answer["instance"]["state"] == state:
                found: dict[str, Any] = answer["instance"]
                return found
            await trio.sleep(0.05)

    async def wait_for_event(self, kind: str, instance: str = "", **fields: Any) -> dict[str, Any]:
        """Wait until an event has arrived whose data has these fields, and return its data."""
        seen = 0
        while True:
            for envelope in self.receiver.events()[seen:]:
                seen += 1
                data = envelope["data"]
                if envelope["event"] != kind or instance not in ("", envelope["instance"]):
                    continue
                if fields.items() <= data.items():
                    found: dict[str, Any] = data
                    return found
            await self.receiver.wait_for(seen + 1)

    async def wait_for_item(self, kind: str, instance: str, **fields: Any) -> dict[str, Any]:
        """Wait for an event whose data is a list with an item that has these fields, and return the item."""
        while True:
            seen = len(self.receiver.requests)
            events: list[Any] = self.events(kind, instance)
            for item in (item for data in events for item in data):
                if fields.items() <= item.items():
                    return dict(item)
            await self.receiver.wait_for(seen + 1)

    def events(self, kind: str, instance: str) -> list[dict[str, Any]]:
        """Return the data of the events of a kind so far. A delivery that a kill repeated counts once."""
        by_id = {request.event_id: request.json for request in self.receiver.requests}
        return [
            envelope["data"]
            for envelope in by_id.values()
            if envelope["event"] == kind and envelope["instance"] == instance
        ]


@asynccontextmanager
async def running_gateway(
    folder: Path, plugins: Mapping[str, Any], **blocks: Mapping[str, Any]
) -> AsyncIterator[Gateway]:
    """Run a gateway and its receiver for the length of the block.

    Args:
        folder: has the configuration and the data.
        plugins: ``plugins.options``, such as ``{"matrix": {"servers": ["http://127.0.0.1:8008"]}}``.
        blocks: more of the configuration.
    """
    port = free_port()
    server = {"bind": [f"127.0.0.1:{port}"], "public_url": f"http://127.0.0.1:{port}"}
    blocks = {"server": server, "delivery": _DELIVERY, "plugins": {"options": plugins}, **blocks}
    async with (
        open_receiver(host=RECEIVER) as receiver,
        httpx.AsyncClient(headers={"apikey": KEY}, trust_env=False, verify=False, timeout=40) as http,
        trio.open_nursery() as nursery,
    ):
        target = Target(nursery, write_config(folder, **blocks))
        gateway = Gateway(target, receiver, http)
        await gateway.start()
        try:
            yield gateway
        finally:
            nursery.cancel_scope.cancel()
