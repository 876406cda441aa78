"""What a node reads of the records that others have changed."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from hookgw import Registration
from tests.public.app import AUDITED
from tests.public.concurrency import Clock
from tests.public.core import Audit, KnownRecords, Registry
from tests.public.fleet import RecordRefresh
from tests.public.kernel import StorageUnavailable
from tests.public.records import Instance
from tests.public.store import RecordChanges, open_store

SHOP = Instance(name="shop", id="id-1")
LATER = Instance(name="later", id="id-2")
HOOK = Registration(id="reg_1", instance="shop", url="http://r.example/", paused_at=5.0)


class Members:
    """The database: it is another one from the beginning."""

    known_version = -1

    async def changes(self) -> RecordChanges:
        is_whole = self.known_version < 0
        if not is_whole:
            return RecordChanges(7, {}, {}, {}, {}, is_whole=False)
        hook = msgspec.structs.replace(HOOK, paused_at=None)
        return RecordChanges(7, {"shop": SHOP}, {"reg_1": hook}, {}, {}, is_whole=True)


@pytest.mark.parametrize("is_told", [True, False])
async def test_what_a_node_ignored_of_another_server_is_read_once_it_has_lost_its_shards(
    tmp_path: Path, is_told: bool
) -> None:
    """Events that come in before the loss may read all records: they must not count as known then."""
    held = True
    nobody: Any = SimpleNamespace(ids=list, stored={}, apply=lambda *_: None)
    keyring: Any = SimpleNamespace(remove=lambda *_: None, add_instance=lambda *_: None)
    async with open_store(tmp_path / "hookgw.db", clock=Clock()) as store:
        registry = Registry(store, Audit(store, Clock()), AUDITED)
        await registry.load([], None)
        for instance in (SHOP, LATER):
            await registry.put_instance(instance)
        await registry.put(HOOK)
        members: Any = Members()
        refresh = RecordRefresh(members, KnownRecords(registry, keyring, nobody, nobody), lambda _: held)
        if is_told:
            await refresh.catch_up(7)
            assert (registry.instances(), registry.find("shop", "default")) == ([LATER, SHOP], HOOK)
            assert members.known_version == 7
        held = False
        for _ in range(2):
            await refresh.catch_up()
        assert registry.instances() == [SHOP]
        assert not registry.of_instance("shop")[0].is_paused
        assert members.known_version == 7


class SlowMembers:
    """A database that answers or fails when it is told to."""

    known_version = 0

    def __init__(self) -> None:
        self.reads = 0
        self.answers, self._answers = trio.open_memory_channel[StorageUnavailable | None](10)

    async def changes(self) -> RecordChanges:
        self.reads += 1
        if (failure := await self._answers.receive()) is not None:
            raise failure
        return RecordChanges(0, {}, {}, {}, {}, is_whole=False)


async def test_who_shares_a_read_that_fails_is_told(autojump_clock: object) -> None:
    nobody: Any = SimpleNamespace(apply=lambda *_: None, apply_disabled=lambda _: None)
    members: Any = SlowMembers()
    refresh = RecordRefresh(members, KnownRecords(nobody, nobody, nobody, nobody), lambda _: False)
    results: list[str] = []

    async def call() -> None:
        try:
            await refresh.catch_up()
            results.append("read")
        except StorageUnavailable as error:
            results.append(str(error))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(call)
            await trio.testing.wait_all_tasks_blocked()
        await members.answers.send(None)  # for the first call; the others came after its read began
        await members.answers.send(StorageUnavailable("It is away."))
    assert results == ["read", *["It is away."] * 3]
    assert members.reads == 2
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await members.answers.send(None)
    assert results[-1] == "read"
