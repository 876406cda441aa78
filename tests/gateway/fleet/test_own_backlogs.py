"""Of the nodes that know a backlog, the one that has it reports it."""

from pathlib import Path

from hookgw import Registration
from tests.gateway.fleet.test_fleet_node import Database, Members, fleet_node
from tests.gateway.test_backlog import Observer
from tests.public.app import AUDITED
from tests.public.concurrency import Clock
from tests.public.config import LimitsSettings
from tests.public.core import Audit, Backlog, OwnBacklogs, Registry
from tests.public.records import GLOBAL_INSTANCE, shard_of
from tests.public.store import open_store


async def test_each_high_backlog_is_reported_by_one_node(tmp_path: Path) -> None:
    of_shop = Registration(id="reg_1", instance="shop", url="http://r.example/")
    everywhere = Registration(id="global_all", instance=GLOBAL_INSTANCE, label="all", url="http://r.example/")
    shards = [{shard_of("shop")}, {shard_of("global_all")}]
    heard = [Observer(), Observer()]
    async with open_store(tmp_path / "hookgw.db", clock=Clock()) as store:
        backlogs = []
        for held, observer in zip(shards, heard, strict=True):
            registry = Registry(store, Audit(store, Clock()), AUDITED)
            await registry.load([everywhere], None)
            await registry.put(of_shop)
            node = fleet_node(Members(Database()), "a")
            node.hold(held)
            limits = LimitsSettings(deliveries=50, instance_reserved_deliveries=5)
            backlogs.append(Backlog(limits, 10, OwnBacklogs(observer, registry, node)))
        for amount in (30, -30):
            for backlog in backlogs:
                backlog.heard({(name, "shop"): (amount, amount) for name in ("reg_1", "global_all", "reg_2")})
    a, b = heard
    assert [(name, is_high) for name, is_high, _ in a.registrations] == [("reg_1", True), ("reg_1", False)]
    assert [(name, is_high) for name, is_high, _ in b.registrations] == [
        ("global_all", True),
        ("global_all", False),
    ]
    assert [is_high for _, is_high, _ in a.instances] == [True, False]
    assert b.instances == []
