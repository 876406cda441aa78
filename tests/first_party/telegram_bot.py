"""What the tests of the Telegram connector share: the fake in this process, and a session."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import trio

from hookgw import ConnectionState
from hookgw.testing import FakeSession
from plugins.telegram.connector import Telegram
from tests.first_party.runs import CATALOG as CATALOG
from tests.networks.telegram.bots import TOKEN, Bot
from tests.networks.telegram.server import BotApi

OPTIONS = {"bot_token": TOKEN, "mode": "polling", "base_url": "https://api.telegram.org"}


class World:
    """The fake, its bot, and a session of a connector."""

    def __init__(self, http: httpx.AsyncClient, api: BotApi, **options: Any) -> None:
        self.api = api
        self.session = FakeSession(options={**OPTIONS, **options}, http=http, catalog=CATALOG)

    @property
    def bot(self) -> Bot:
        """The first bot of the fake."""
        return self.api.bot

    def texts(self) -> list[str]:
        """Return the texts that have arrived."""
        return [data["message"]["conversation"] for data in self.session.data_of("MESSAGES_UPSERT")]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Telegram]:
        """Run the connector for the length of the block."""
        telegram = Telegram()
        with trio.fail_after(24 * 3600):  # the clock jumps there if nothing else can happen
            async with trio.open_nursery() as nursery:
                nursery.start_soon(telegram.run, self.session)
                yield telegram
                nursery.cancel_scope.cancel()

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Telegram]:
        """Run the connector, and wait until it is open."""
        self.session.state = None  # of a former run
        async with self.running() as telegram:
            await self.session.wait_until(ConnectionState.OPEN)
            yield telegram


@asynccontextmanager
async def open_world(**options: Any) -> AsyncIterator[World]:
    """Make a world whose connector reaches the fake without a socket."""
    api = BotApi()

    async def check_place(request: httpx.Request) -> None:
        # A poll has a place of its own: no other request waits for it.
        assert bool(request.extensions.get("long_poll")) is request.url.path.endswith("/getUpdates")

    hooks = {"request": [check_place]}
    async with httpx.AsyncClient(transport=api.transport(), event_hooks=hooks) as http:
        yield World(http, api, **options)
