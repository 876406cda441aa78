"""``python -m tests.networks.evolution [PORT] [INSTANCE …]``: a server to try hookgw with.

Somebody writes to an account with ``POST /fake/receive/<instance>`` ``{"text": "hello"}``, and scans its code
with ``POST /fake/scan/<instance>``.
"""

import sys
from contextlib import suppress
from functools import partial

import trio

from tests.networks.evolution.server import KEY, Evolution, serving


async def main(port: int, names: list[str]) -> None:
    """Serve until interrupted."""
    evolution = Evolution()
    for name in names:
        evolution.add(name)
    async with serving(evolution, port=port) as url:
        print(f"evolution listening on {url}, apikey {KEY}, instances: {', '.join(names)}", flush=True)
        await trio.sleep_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        trio.run(partial(main, int(sys.argv[1]) if sys.argv[1:] else 8085, sys.argv[2:] or ["loja1"]))
