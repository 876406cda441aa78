"""The reference of the HTTP measures: a quart-trio route that reads its body and does nothing.

Run as a program; it prints its port and ends when its standard input does.
"""

import socket
import sys

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from quart import request
from quart_trio import QuartTrio

app = QuartTrio(__name__)


@app.post("/empty")
async def empty() -> tuple[str, int]:
    await request.get_data()
    return "", 202


async def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]  # the server closes it
    config.accesslog = config.errorlog = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, app, config)
        await trio.to_thread.run_sync(sys.stdin.read)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
