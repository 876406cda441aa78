"""What a node reads of the records that others have changed."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from hookgw import Registration
from tests.public.app import AUDITED
from tests.public.concurrency import Clock
from tests.public.core import Audit, KnownRecords, Registry
from tests.public.fleet import RecordRefresh
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
            return RecordChanges(7, {}, {}, {}, msgspec.UNSET, {}, is_whole=False)
        hook = msgspec.structs.replace(HOOK, paused_at=None)
        return RecordChanges(7, {"shop": SHOP}, {"reg_1": hook}, {}, msgspec.UNSET, {}, is_whole=True)


@pytest.mark.parametrize("is_told", [True, False])
async def test_what_a_node_ignored_of_another_server_is_read_once_it_has_lost_its_shards(
    tmp_path: Path, is_told: bool
) -> None:
    """Events that come in before the loss may read all records: they must not count as known then."""
    held = True
    nobody: Any = SimpleNamespace(ids=list, limited={}, apply=lambda *_: None, apply_limited=lambda *_: None)
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
