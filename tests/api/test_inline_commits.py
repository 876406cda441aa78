"""``storage.inline_commits`` over HTTP: an event that comes alone, and one beside another request."""

import threading
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest
import trio

from hookgw import Gateway
from hookgw.store.commits import inline
from tests.api.conftest import is_sqlite
from tests.public.concurrency import SystemThreads
from tests.public.config import Settings
from tests.public.sqlite import Writer

pytestmark = is_sqlite


@pytest.fixture
def settings(settings: Settings) -> Settings:
    storage = msgspec.structs.replace(settings.storage, inline_commits=True)
    return msgspec.structs.replace(settings, storage=storage)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads in which events are written. Every disk counts as quick, and no other thread as at work."""
    monkeypatch.setattr(SystemThreads, "at_work", property(lambda _: 0, lambda *_: None), raising=False)
    monkeypatch.setattr(inline, "QUICK_COMMITS", 0)
    found: list[int] = []

    def noting(commit: Callable[..., Any]) -> Callable[..., Any]:
        def write(writer: Writer, groups: Any, **more: Any) -> Any:
            if any(group.appends for group in groups):
                found.append(threading.get_ident())
            return commit(writer, groups, **more)

        return write

    monkeypatch.setattr(Writer, "commit", noting(Writer.commit))
    monkeypatch.setattr(Writer, "commit_at_once", noting(Writer.commit_at_once))
    return found


async def emit(client: httpx.AsyncClient) -> None:
    response = await client.post("/event/emit/shop", json={"event": "MESSAGES_UPSERT", "data": {}})
    assert response.status_code == 202
    assert response.json()["accepted"] == 1


async def test_an_event_that_comes_alone_is_written_by_the_event_loop(
    client: httpx.AsyncClient, gateway: Gateway, threads: list[int]
) -> None:
    await gateway.instances.create("shop")
    await emit(client)
    await emit(client)
    assert threads == [threading.get_ident()] * 2
    assert gateway.loop_load.requests == 0


async def test_an_event_beside_another_request_is_written_in_the_thread(
    client: httpx.AsyncClient, gateway: Gateway, threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    await gateway.instances.create("shop")
    reached, go_on, find = trio.Event(), trio.Event(), gateway.store.list_events

    async def find_later(*given: Any, **more: Any) -> Any:
        reached.set()
        await go_on.wait()
        return await find(*given, **more)

    monkeypatch.setattr(gateway.store, "list_events", find_later)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.get, "/event/list/shop")
        await reached.wait()
        assert gateway.loop_load.requests == 1
        await emit(client)
        assert len(threads) == 1
        assert threads != [threading.get_ident()]
        go_on.set()
    await emit(client)
    assert threads[1:] == [threading.get_ident()]
