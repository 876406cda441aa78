"""The kinds of runs that are recorded, and one of each by name and seed."""

import random
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.public.config import MasterKeys, parse_master_key
from tests.simulation.power.runs import (
    Action,
    Recording,
    closed,
    cut_state,
    record_maintenance,
    record_opening,
    record_server,
    record_work,
)
from tests.store.sqlite.previous_version import Name, load_truth, unpack

A, B = bytes([1] * 32), bytes([2] * 32)
URL = b"http://r"
"""Where the registrations of the workload go: it is in records that a master key encrypts."""


def _migration(name: Name, seed: int, plant: str) -> Recording:
    with tempfile.TemporaryDirectory() as folder:
        files = {"hookgw.db": unpack(name, Path(folder)).read_bytes()}
    key = load_truth(name).settings.get("storage", {}).get("master_key")
    keys = MasterKeys(parse_master_key(key)) if key else MasterKeys()
    return record_opening(f"a migration, {name}", files, keys=keys, plant=plant, version=6)


def _encryption(seed: int, plant: str) -> Recording:
    files = cut_state(seed)
    return record_opening(f"an encryption {seed}", files, keys=MasterKeys(A), plant=plant, forbidden=URL)


def _another_key(seed: int, plant: str) -> Recording:
    files = closed(cut_state(seed), MasterKeys(A))
    return record_opening(f"another key {seed}", files, keys=MasterKeys(B, (A,)), plant=plant)


def _restore(seed: int, plant: str) -> Recording:
    files, backup = cut_state(seed), closed(cut_state(seed + 1), MasterKeys())
    return record_maintenance(Action.RESTORE, files | {"backup.db": backup["hookgw.db"]}, plant=plant)


KINDS: dict[str, Callable[[int, str], Recording]] = {
    "work": lambda seed, plant: record_work(seed, plant=plant),
    "server": lambda seed, plant: record_server(seed, plant=plant),
    "erasure": lambda seed, plant: record_work(seed, rounds=4, often="erase", plant=plant),
    "migration": partial(_migration, "plain"),
    "migration, encrypted": partial(_migration, "encrypted"),
    "recovery": lambda seed, plant: record_opening(f"a recovery {seed}", cut_state(seed), plant=plant),
    "encryption": _encryption,
    "another key": _another_key,
    "compaction": lambda seed, plant: record_maintenance(Action.COMPACT, cut_state(seed), plant=plant),
    "restore": _restore,
}


def any_kind(seed: int) -> str:
    """Return the kind of a run of the long mode: most are work."""
    chance = random.Random(seed)
    return "work" if chance.random() < 0.5 else chance.choice(list(KINDS)[1:])


PLANTED_IN = {
    "synchronous NORMAL": "work",
    "synchronous OFF": "work",
    "a rollback journal that is not synchronized": "work",
    "checkpoints without a sync": "work",
    "an answer before the commit": "work",
    "a job's progress apart from its step": "work",
    "a new folder without a sync of its name": "work",
    "an emptied log without a sync": "erasure",
    "a backup without a sync of its file": "work",
    "a backup without a sync of its folder": "work",
    "a backup that has its name at once": "work",
    "a copy before a migration without a sync of its file": "migration",
    "records that are encrypted, in a log that is not synchronized": "encryption",
    "a restore without a sync of what moved aside": "restore",
}
"""The planted faults, and the kind of run that shows each."""
