"""Run the stand-in as a server: ``python -m tests.networks.waha --port 3000``.

``POST /fake/<session>/scan`` scans the QR code, ``POST /fake/<session>/receive`` with ``{"chat", "body", …}``
receives a message, and ``POST /fake/<session>/report`` with ``{"event", "payload"}`` reports any event.
"""

import argparse
import os
from functools import partial
from typing import Any

import httpx
import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from quart import request

from tests.networks.waha.server import FakeWaha


async def main(host: str, port: int, api_key: str) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http, trio.open_nursery() as nursery:
        waha = FakeWaha(partial(post_over_http, http), nursery, api_key=api_key)

        @waha.app.post("/fake/<name>/<call>")
        async def fake(name: str, call: str) -> Any:
            given = await request.get_json(silent=True) or {}
            if call == "scan":
                waha.scan(name)
            elif call == "receive":
                return waha.receive(name, given.pop("chat"), given.pop("body", ""), **given)
            elif call == "report":
                waha.report(name, given["event"], given["payload"])
            return {}

        config = Config()
        config.bind = [f"{host}:{port}"]
        await serve(waha.app, config)


async def post_over_http(http: httpx.AsyncClient, url: str, headers: dict[str, str], body: bytes) -> int:
    try:
        return (await http.post(url, headers=headers, content=body)).status_code
    except httpx.HTTPError as error:
        raise OSError(str(error)) from error


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=3000)
    # As for WAHA's own image.
    parser.add_argument("--api-key", default=os.environ.get("WAHA_API_KEY", "waha-key"))
    options = parser.parse_args()
    trio.run(main, options.host, options.port, options.api_key)
