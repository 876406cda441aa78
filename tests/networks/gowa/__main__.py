"""Run the stand-in as a server: ``python -m tests.networks.gowa``, with GOWA's own variables.

``POST /fake/<device>/scan`` scans the QR code, and ``POST /fake/<device>/receive`` with ``{"chat", "body",
…}`` receives a message.
"""

import os
from functools import partial
from typing import Any

import httpx
import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from quart import request

from tests.networks.gowa.server import FakeGowa
from tests.networks.waha.__main__ import post_over_http


async def main() -> None:
    user, _, password = os.environ["APP_BASIC_AUTH"].partition(":")
    async with httpx.AsyncClient(trust_env=False, timeout=10) as http, trio.open_nursery() as nursery:
        gowa = FakeGowa(partial(post_over_http, http), nursery, user=user, password=password)

        @gowa.app.post("/fake/<name>/<call>")
        async def fake(name: str, call: str) -> Any:
            given = await request.get_json(silent=True) or {}
            if call == "scan":
                gowa.scan(name)
                return {}
            return gowa.receive(name, given.pop("chat"), **given)

        config = Config()
        config.bind = [f"{os.environ['APP_HOST']}:{os.environ['APP_PORT']}"]
        await serve(gowa.app, config)


if __name__ == "__main__":
    trio.run(main)
