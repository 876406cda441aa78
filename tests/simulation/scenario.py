"""What a seed makes of a run: settings, hosts, how many lives, and how much of everything."""

import base64
import random
from pathlib import Path
from typing import Any

import msgspec

from tests.public.config import (
    AuthSettings,
    DeliverySettings,
    LimitsSettings,
    OperationsSettings,
    PluginsSettings,
    ServerSettings,
    Settings,
    StorageSettings,
)
from tests.public.kernel import Duration, Size

DAY = 86_400.0
GLOBAL_KEY = "global-key-of-the-simulation-7f3a"
MASTER_KEYS = tuple(base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
PULLED = "desk"
"""The instance with a registration whose receiver fetches."""
KINDS = ("MESSAGES_UPSERT", "MESSAGES_UPDATE", "SEND_MESSAGE")


class Scenario(msgspec.Struct, kw_only=True):
    """The frame of a run.

    Attributes:
        settings: of the gateway, the same for all its lives.
        hosts: names of receivers.
        instances: names.
        lives: how many times the gateway starts before the last life, in which nothing fails.
        clients: how many tasks call the gateway at the same time.
        calls: how many calls they make in all, in one life.
        moods: of receivers, from which each gets a new one now and then.
        latency: the longest usual time until an answer, in seconds.
        plugin: how many of a plugin's calls fail, from 0 to 1.
        slow_disk: the longest call, in seconds.
        disk_faults: how likely the disk refuses for a while, in one life.
        jumps: whether the machine's clock jumps.
        nights: how many hours pass between two busy phases, at most.
        connector: whether a connector emits events, too.
        pull: whether an instance has a registration whose receiver fetches.
        deletions, erasures, backups: how often clients make these calls; emits have 10.
        api: whether clients call the HTTP API, too, in this part of the lives.
        master_keys: encrypt records: a life has one of them, and knows the others. Empty for none.
        backfills: how often clients ask for one.
        step: the most deliveries that a step of a replay or backfill handles.
    """

    settings: Settings
    hosts: tuple[str, ...]
    instances: tuple[str, ...]
    lives: int
    clients: int
    calls: int
    moods: tuple[str, ...]
    latency: float
    plugin: float
    slow_disk: float
    disk_faults: float
    jumps: bool
    nights: float
    connector: bool
    pull: bool
    deletions: float
    erasures: float
    backups: float
    api: float
    master_keys: tuple[str, ...]
    backfills: float
    step: int


def scenario_of(seed: int, folder: Path) -> Scenario:
    """Return the frame of a run. Each of its parts is extreme in some runs, and usual in most."""
    chance = random.Random(f"scenario {seed}")

    def pick(*values: float) -> float:
        return chance.choice(values)

    def whole(*values: int) -> int:
        return chance.choice(values)

    more = random.Random(f"more of scenario {seed}")
    hosts = tuple(f"h{number}.example" for number in range(1, more.choice((2, 3, 4))))
    limited = chance.random() < 0.25
    first_wait = pick(0.05, 0.05, 1)
    settings = Settings(
        server=ServerSettings(shutdown_grace=Duration(pick(0, 1, 10))),
        auth=AuthSettings(global_key=GLOBAL_KEY),
        storage=StorageSettings(
            path=str(folder / "hookgw.db"),
            min_free=Size(0),
            retention=Duration(0 if chance.random() < 0.1 else 60 * DAY),
            # A source of its own: the other runs stay what they are.
            inline_commits=random.Random(f"inline commits in scenario {seed}").random() < 0.5,
        ),
        delivery=DeliverySettings(
            timeout=Duration(pick(15, 15, 8)),
            max_age=Duration(pick(3 * DAY, 3 * DAY, 3600)),
            schedule=tuple(
                map(
                    Duration,
                    chance.choice(
                        ((5, 15, 30, 60, 120, 300, 600), (1, 2), (), (30, 5), (5, 15, 30, 60, 120, 300, 600))
                    ),
                )
            ),
            unreachable_first_wait=Duration(first_wait),
            unreachable_max_wait=Duration(pick(300, 300, 10)),
            retry_after_max=Duration(pick(3600, 60)),
            disable_after=Duration(pick(5 * DAY, 5 * DAY, 1800)),
            host_connections=whole(64, 64, 4, 2, 1),
            lane_buffer=whole(256, 8, 2, 1),
            lane_idle=Duration(pick(60, 60, 2)),
            memory=Size(whole(128 * 2**20, 128 * 2**20, 64 * 2**10)),
        ),
        limits=LimitsSettings(
            deliveries=whole(12, 25) if limited else 5_000_000,
            registration_deliveries=whole(6, 15, 2_000_000) if limited else 2_000_000,
            instance_reserved_deliveries=whole(0, 4) if limited else 1000,
            on_full=chance.choice(("refuse", "drop_oldest")),
        ),
        plugins=PluginsSettings(block_warning=Duration(0), first_party=False, folders=()),
        operations=_operations(more, hosts) if more.random() < 0.3 else OperationsSettings(),
        global_webhooks=_global_webhooks(more, hosts) if more.random() < 0.35 else (),
    )
    has_connector = chance.random() < 0.2
    # A source of its own: the other runs stay what they are.
    has_pull = random.Random(f"pull in scenario {seed}").random() < 0.25
    instances = ("shop", "bank", "cafe")[: whole(1, 2, 3)]
    every = ("healthy", "slow", "flaky", "busy", "failing", "liar", "picky", "gone", "hanging", "down")
    return Scenario(
        settings=settings,
        hosts=hosts,
        instances=(*instances, *(("phone",) if has_connector else ()), *((PULLED,) if has_pull else ())),
        lives=whole(1, 1, 2, 2, 3, 4),
        clients=whole(1, 1, 2, 3),
        calls=whole(4, 8, 12),
        moods=("healthy", "healthy", *chance.sample(every, whole(0, 1, 2, 3, 5))),
        latency=pick(0, 0.2, 3),
        plugin=pick(0, 0, 0, 0, 0.1, 0.3),
        slow_disk=pick(0, 0.01, 0.01, 2),
        disk_faults=pick(0, 0, 0.5),
        jumps=chance.random() < 0.2,
        nights=pick(0, 1, 12, 48),
        connector=has_connector,
        pull=has_pull,
        deletions=more.choice((0, 0, 0.4, 1)),
        erasures=more.choice((0, 0, 0.4, 1)),
        backups=more.choice((0, 0, 0, 1)),
        api=more.choice((0, 0, 0.6, 0.6)),
        master_keys=more.choice(((), (), (), (), (), (), MASTER_KEYS[:1], MASTER_KEYS)),
        backfills=more.choice((0, 0, 1, 3)),
        step=more.choice((1000, 1000, 1, 3)),
    )


def _operations(chance: random.Random, hosts: tuple[str, ...]) -> OperationsSettings:
    return OperationsSettings(
        url=f"http://{chance.choice(hosts)}/operations-operations-0/1",
        backlog_threshold=chance.choice((5, 10_000)),
    )


def _global_webhooks(chance: random.Random, hosts: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
    """Return webhooks of the configuration: one, or two of which one has an ordering of its own."""
    blocks: list[dict[str, Any]] = [
        {"label": "every", "url": f"http://{chance.choice(hosts)}/global-every-0/1"}
    ]
    if chance.random() < 0.3:
        url = f"http://{chance.choice(hosts)}/global-other-0/1"
        ordering = chance.choice(("url", "chat", "none"))
        blocks.append({"label": "other", "url": url, "ordering": ordering, "concurrency": 2})
    return tuple(blocks)
