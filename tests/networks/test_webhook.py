"""The connector webhook in a real process: kills, another library's signatures, the commands of its page."""

import json
import os
import random
import re
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from standardwebhooks import Webhook

from tests.networks.gateway import Gateway, running_gateway

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
PAGE = Path(__file__).parents[2] / "docs" / "networks" / "webhook.md"
POSTS = 240
SENDERS = 3

pytestmark = [pytest.mark.networks, pytest.mark.timeout(300)]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    kinds = {"ORDER_CREATED": "An order was placed.", "ORDER_PAID": "An order was paid."}
    with trio.fail_after(250):
        async with running_gateway(tmp_path, {"webhook": {"kinds": kinds}}) as gateway:
            yield gateway


class Sender:
    """Posts numbered events, each again and again until it gets 200, as senders of webhooks do."""

    def __init__(self, name: str, url: str, http: httpx.AsyncClient) -> None:
        self.name = name
        self.acknowledged = 0
        self._url = url
        self._http = http

    async def run(self) -> None:
        for number in range(POSTS):
            body = json.dumps({"type": "order.paid", "sender": self.name, "n": number})
            while not await self._post(f"{self.name}_{number}", body):  # noqa: ASYNC110 (a retry)
                await trio.sleep(0.02)
            self.acknowledged += 1
            if random.random() < 0.05:  # the answer was lost on its way
                await self._post(f"{self.name}_{number}", body)

    async def _post(self, message_id: str, body: str) -> bool:
        now = datetime.now(UTC)
        # While it replaces its secret, a sender signs with both.
        signatures = [Webhook(secret).sign(message_id, now, body) for secret in (OLD_SECRET, SECRET)]
        headers = {
            "webhook-id": message_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": " ".join(signatures),
        }
        try:
            answer = await self._http.post(self._url, content=body, headers=headers)
        except httpx.HTTPError:
            return False
        assert answer.status_code in (200, 503), answer.text
        return answer.status_code == 200


async def test_nothing_acknowledged_is_lost_or_doubled_through_kills(gateway: Gateway) -> None:
    url = await gateway.connect("orders", "webhook", kind="/type", secret=SECRET)
    async with httpx.AsyncClient(trust_env=False) as http:
        senders = [Sender(f"s{index}", url, http) for index in range(SENDERS)]
        async with trio.open_nursery() as nursery:
            for sender in senders:
                nursery.start_soon(sender.run)
            for part in (1, 2, 3):
                while min(one.acknowledged for one in senders) < part * POSTS // 4:  # noqa: ASYNC110 (progress)
                    await trio.sleep(0.01)
                await trio.sleep(random.uniform(0, 0.1))
                await gateway.kill()
                await gateway.start()
    while len(found := gateway.events("ORDER_PAID", "orders")) < SENDERS * POSTS:
        await gateway.receiver.wait_for(len(gateway.receiver.requests) + 1)
    assert len(found) == SENDERS * POSTS
    for sender in senders:
        assert [data["n"] for data in found if data["sender"] == sender.name] == list(range(POSTS))


async def test_the_commands_of_the_page(gateway: Gateway) -> None:
    if not all(map(shutil.which, ("bash", "curl", "openssl", "base64", "od"))):
        pytest.skip("The commands of docs/networks/webhook.md need bash, curl, openssl, base64 and od.")
    script = next(block for block in shell_blocks() if "openssl dgst" in block)
    url = await gateway.connect("orders", "webhook", kind="/type", secret=SECRET)
    environment = {**os.environ, "SECRET": SECRET, "INGEST_URL": url}
    curl = script.replace("curl ", "curl --noproxy '*' --fail-with-body -sS ")
    run = partial(trio.run_process, ["bash", "-euc", curl], capture_stdout=True, env=environment)
    for _ in range(2):  # the same id is the same event
        assert (await run()).stdout == b""
    data = await gateway.wait_for_event("ORDER_PAID")
    assert data == {"type": "order.paid", "order": {"number": 17}}
    assert [request.event_id for request in gateway.receiver.requests][-1:] == ["order-17-paid"]
    # And the first walk-through, whose sender sends a header.
    posts = [block for block in shell_blocks() if "x-token" in block]
    options = json.loads(re.search(r"-d '(\{.*?\})'", posts[0], re.DOTALL)[1])  # type: ignore[index]
    environment["INGEST_URL"] = await gateway.connect(
        options.pop("instanceName") + "-2", options.pop("integration"), **options
    )
    await trio.run_process(
        ["bash", "-euc", posts[1].replace("curl ", "curl --noproxy '*' --fail-with-body -sS ")],
        capture_stdout=True,
        env=environment,
    )
    found: dict[str, Any] = await gateway.wait_for_event("ORDER_PAID", "orders-2")
    assert found["order"] == {"number": 17, "total": 99.90}


def shell_blocks() -> list[str]:
    page = re.sub(r"^ {3}", "", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    return re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
