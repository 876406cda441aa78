"""Run the fake as a process: ``python -m tests.networks.telegram --port 8081``."""

import argparse

import trio

from tests.networks.telegram.bots import TOKEN, Bot
from tests.networks.telegram.server import BotApi, serving


async def main(port: int, token: str) -> None:
    """Serve until the process is ended."""
    async with serving(BotApi(Bot(token)), port) as url:
        print(f"a fake Bot API server at {url}, with the bot {token}", flush=True)
        await trio.sleep_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8081)
    parser.add_argument("--token", default=TOKEN)
    arguments = parser.parse_args()
    trio.run(main, arguments.port, arguments.token)
