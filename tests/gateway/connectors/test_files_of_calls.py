"""The files that a connector fetches for a call count as memory until the call has ended."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from hookgw.delivery.http.answer_memory import AnswerMemory, HeldAnswer
from hookgw.gateway.connectors.outgoing_call import OutgoingCall
from hookgw.gateway.connectors.session import ConnectorSession
from hookgw.models.clock import Clock
from hookgw.models.connectors import FetchedFile
from hookgw.models.errors import Invalid, NetworkRefused
from hookgw.models.instances import Instance
from hookgw.plugins.boundary import Boundary
from hookgw.plugins.contained_connector import ContainedConnector
from hookgw.plugins.provided import check_connector
from hookgw.testing import FakeConnector
from tests.support.media import EVENT_RULES, inbound_media

UNUSED: Any = None
CONNECTOR = ContainedConnector(check_connector(FakeConnector()), "mine", Boundary())


class Files:
    """Has the part of ``ConnectorClients`` that fetches: every URL has 10 bytes, but ``bad`` has none."""

    def __init__(self) -> None:
        self.memory = AnswerMemory(2**20)

    def hold_file(self, instance: str) -> HeldAnswer:
        return self.memory.hold(instance)

    async def fetch(self, instance: str, url: str, *, limit: int, held: HeldAnswer) -> FetchedFile:
        assert (instance, limit) == ("shop", 99)
        await held.take(10)
        if url == "bad":
            raise Invalid("No file.")
        return FetchedFile(bytes(10))


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
async def session(files: Files) -> ConnectorSession:
    clients: Any = files
    return ConnectorSession(
        Instance(id="i", name="shop"),
        CONNECTOR,
        UNUSED,
        UNUSED,
        Clock(),
        clients,
        UNUSED,
        inbound_media(),
        EVENT_RULES,
    )


@pytest.mark.parametrize("fails", [False, True])
async def test_a_file_counts_until_the_call_has_ended(
    files: Files, session: ConnectorSession, *, fails: bool
) -> None:
    async def make() -> bool:
        for _ in range(2):
            await session.fetch("good", limit=99)
        with pytest.raises(Invalid):
            await session.fetch("bad", limit=99)
        assert files.memory.share.held("shop") == 20
        if fails:
            raise NetworkRefused("No.")
        return True

    call = OutgoingCall(session, make, lambda _: [], lambda _: None)
    call.begin()
    await call.run()
    assert files.memory.share.used == 0


async def test_a_file_of_no_call_does_not_count_once_it_was_read(
    files: Files, session: ConnectorSession
) -> None:
    assert len(await session.fetch("good", limit=99)) == 10
    assert files.memory.share.used == 0


async def test_a_file_that_a_task_fetches_after_the_call_does_not_count_for_ever(
    files: Files, session: ConnectorSession
) -> None:
    call_ended = trio.Event()

    async def later() -> None:
        await call_ended.wait()
        await session.fetch("good", limit=99)

    async with trio.open_nursery() as nursery:
        with session.keeping_files():
            nursery.start_soon(later)
        call_ended.set()
    assert files.memory.share.used == 0
