"""In which shard a lane is, also after its registration is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookgw import Registration
from hookgw.concurrency import Clock
from hookgw.core import Audit, Registry
from hookgw.fleet import SHARD_WORK_UNKNOWN as UNKNOWN
from hookgw.fleet import LaneShards, shard_work
from hookgw.records import shard_of
from hookgw.store import open_store
from hookgw.webhooks import AUDITED


async def test_shards_of_lanes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_work, "MOST_KNOWN", 2)
    ids, shop = [f"reg_{n}" for n in range(4)], shard_of("shop")
    async with open_store(tmp_path / "hookgw.db", clock=Clock()) as store:
        registry = Registry(store, Audit(store, Clock()), AUDITED)
        lanes = LaneShards(registry)
        assert lanes.find("reg_0:0") == lanes.shard_of_lane("reg_0:1") == UNKNOWN
        assert lanes.unknown == {"reg_0:1"}

        there = [Registration(id=id_, instance="shop", url="http://r.example/", label=id_) for id_ in ids]
        registry.apply({}, dict(zip(ids, there, strict=True)))
        assert {lanes.shard_of_lane(f"{id_}:0") for id_ in ids} == {shop}
        registry.apply({}, dict.fromkeys(ids))
        # Lanes that still run are found, and a node that sees registrations come and go does not grow.
        assert [lanes.find(f"{id_}:5") for id_ in ids] == [UNKNOWN, UNKNOWN, shop, shop]
        assert lanes.unknown == {"reg_0:1"}
