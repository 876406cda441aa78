"""Recorded runs, the cuts in them, and the check of each."""

import hashlib
import json
import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import trio
from structlog.testing import capture_logs

from tests.public.concurrency import Clock
from tests.public.config import MasterKeys
from tests.public.kernel import StartError, StorageUnavailable
from tests.public.sqlite import check_file, restore_file
from tests.public.store import Store, open_store
from tests.simulation.power.account import Model, Request, View, differences, look
from tests.simulation.power.disk import EVERY_RULES, Disk, Files, Rules
from tests.simulation.power.operations import Mark, Operation, Sync
from tests.simulation.power.serving import configure
from tests.simulation.power.tracing import record
from tests.store.support import to

NO_KEYS = MasterKeys()
DATA = "data/hookgw.db"
# What a damaged file may raise, also in the block of ``open_store``.
_TROUBLE = (StartError, StorageUnavailable, sqlite3.Error, ExceptionGroup)


class Action(StrEnum):
    """What the recorded program does."""

    WORK = "work"
    SERVE = "serve"
    OPEN = "open"
    COMPACT = "compact"
    RESTORE = "restore"


class Recording(NamedTuple):
    """A run, and what the file must hold after a cut in it.

    Attributes:
        name: for messages.
        disk: as it was at the beginning.
        operations: in order.
        keys: with which the file is opened after the cut.
        views: what the file may hold until the program has answered; ``None`` where its requests say it.
        promised: what it must hold from then on.
        forbidden: what is in no data file from then on.
        version: of the schema, if the file is migrated.
        is_server: whether clients say what was accepted.
        former: what is aside once the promised file is there; ``None`` if nothing moves aside.
    """

    name: str
    disk: Disk
    operations: list[Operation]
    keys: MasterKeys = NO_KEYS
    views: tuple[View, ...] | None = None
    promised: View | None = None
    forbidden: bytes | None = None
    version: int | None = None
    former: View | None = None
    is_server: bool = False


class Failure(NamedTuple):
    """A state of the disk that is not as promised.

    Attributes:
        cut: after how many operations the power failed.
        rules: of the disk.
        number: of the state in its series.
        said: what is wrong.
        files: the state.
    """

    cut: int
    rules: Rules
    number: int
    said: list[str]
    files: Files


# Recording


def record_work(seed: int, *, rounds: int = 12, often: str = "", plant: str = "nothing") -> Recording:
    """Record a new store at random work.

    Args:
        seed: chooses it.
        rounds: how much there is, before and after the store is closed once.
        often: a request that is made in every second round.
        plant: a fault.
    """
    with _folder() as folder:
        disk, operations = _record(
            folder, Action.WORK, folder / DATA, seed=seed, rounds=rounds, often=often, plant=plant
        )
    return Recording(f"work {seed}", disk, operations)


def record_server(seed: int, *, plant: str = "nothing") -> Recording:
    """Record ``hookgw serve`` with a new data file, and clients that emit events over HTTP."""
    with _folder() as folder:
        configure(folder)
        disk, operations = _record(folder, Action.SERVE, folder / DATA, seed=seed, plant=plant)
    return Recording(f"a server {seed}", disk, operations, is_server=True)


def record_opening(
    name: str,
    files: Files,
    *,
    keys: MasterKeys = NO_KEYS,
    plant: str = "nothing",
    forbidden: bytes | None = None,
    version: int | None = None,
) -> Recording:
    """Record how a store opens a data file: it may migrate, encrypt or recover it.

    Args:
        name: for messages.
        files: the data file ``hookgw.db``, and the files beside it.
        keys: with which it is opened; they read it before and afterwards.
        plant: a fault.
        forbidden, version: see :class:`Recording`.
    """
    view = _view_of(files, keys)
    with _folder() as folder, capture_logs():
        _write(folder, files)
        disk, operations = _record(folder, Action.OPEN, folder / "hookgw.db", keys=keys, plant=plant)
    return Recording(name, disk, operations, keys, (view,), view, forbidden, version)


def record_maintenance(action: Action, files: Files, *, plant: str = "nothing") -> Recording:
    """Record how a data file is compacted, or how ``backup.db`` takes its place.

    Args:
        action: one of the two.
        files: the data file ``hookgw.db``, the files beside it, and the backup.
        plant: a fault.
    """
    promised = former = _view_of(files, NO_KEYS)
    views: tuple[View, ...] = (former,)
    if action is Action.RESTORE:
        promised = _view_of({"hookgw.db": files["backup.db"]}, NO_KEYS)
        # Between two renames there is no data file.
        views = (former, promised, Model().view())
    with _folder() as folder:
        _write(folder, files)
        disk, operations = _record(folder, action, folder / "hookgw.db", plant=plant)
    aside = former if action is Action.RESTORE else None
    return Recording(action.value, disk, operations, NO_KEYS, views, promised, former=aside)


@lru_cache(maxsize=2)
def cut_state(seed: int) -> Files:
    """Return the files of a store whose power was cut in the middle of random work, as ``hookgw.db``."""
    recording = record_work(seed)
    chance = random.Random(seed)
    for operation in recording.operations[
        : chance.randint(len(recording.operations) // 2, len(recording.operations))
    ]:
        recording.disk.do(operation)
    files = recording.disk.cut(chance.choice(EVERY_RULES), chance)
    return {
        path.removeprefix("data/"): content
        for path, content in files.items()
        if path.startswith(DATA) and not path.endswith(("-shm", ".lock"))
    }


def closed(files: Files, keys: MasterKeys) -> Files:
    """Return what is left of the files of a store after it was opened and closed."""
    with _folder() as folder, capture_logs():
        _write(folder, files)
        trio.run(_look, folder / "hookgw.db", keys)
        return {"hookgw.db": (folder / "hookgw.db").read_bytes()}


def _view_of(files: Files, keys: MasterKeys) -> View:
    with _folder() as folder:
        _write(folder, files)
        with capture_logs():
            return trio.run(_look, folder / "hookgw.db", keys)


def _record(
    folder: Path,
    action: Action,
    path: Path,
    *,
    seed: int = 0,
    rounds: int = 0,
    often: str = "",
    keys: MasterKeys = NO_KEYS,
    plant: str,
) -> tuple[Disk, list[Operation]]:
    arguments = (action.value, path, seed, rounds, often, msgspec.json.encode(keys).decode(), plant)
    return record(folder, ["-m", "tests.simulation.power.workload", *map(str, arguments)])


async def _look(path: Path, keys: MasterKeys) -> View:
    async with open_store(path, clock=Clock(), keys=keys) as store:
        return await look(store)


# Cuts


def check_recording(
    recording: Recording, states: int, seed: int, *, stop_at_first: bool = False
) -> list[Failure]:
    """Cut the power at many moments of a recording, and check what is on the disk.

    A third of the cuts are just before or after the end of a sync, a third just after an answer, and the
    others anywhere.

    Args:
        recording: the run.
        states: how many states of the disk.
        seed: chooses them.
        stop_at_first: return with the first failure.
    """
    with capture_logs():
        return trio.run(_check_all, recording, states, seed, stop_at_first)


def find_failure(recording: Recording, most: int, seed: int) -> int | None:
    """Return how many states of a recording were looked at until one was a failure; ``None`` if none was.

    Args:
        recording: the run.
        most: after so many states the search ends.
        seed: chooses them.
    """
    part = 20  # each part has cuts from the beginning to the end
    for done in range(0, most, part):
        failures = check_recording(recording, part, seed + done, stop_at_first=True)
        if failures:
            return done + failures[0].number + 1
    return None


async def _check_all(recording: Recording, states: int, seed: int, stop_at_first: bool) -> list[Failure]:
    chance = random.Random(seed)
    operations = recording.operations
    places = (
        range(len(operations) + 1),
        [i + more for i, one in enumerate(operations) if isinstance(one, Sync) for more in (0, 1)],
        [i + 1 for i, one in enumerate(operations) if isinstance(one, Mark) and _is_promise(one)],
    )
    cuts = sorted(chance.choice(chance.choice(places) or places[0]) for _ in range(states))
    disk, ledger, done = recording.disk.copy(), Ledger(recording), 0
    failures: list[Failure] = []
    with _folder() as folder:
        for number, cut in enumerate(cuts):
            for operation in operations[done:cut]:
                disk.do(operation)
                if isinstance(operation, Mark):
                    ledger.hear(json.loads(operation.text))
            done = cut
            rules = chance.choice(EVERY_RULES)
            files = disk.cut(rules, chance)
            _disturb_index(files, chance)
            said = await ledger.check(files, folder, disk)
            if said:
                failures.append(Failure(cut, rules, number, said, files))
                if stop_at_first:
                    return failures
    return failures


def _is_promise(mark: Mark) -> bool:
    return mark.text.startswith((b'{"answered"', b'{"accepted"'))


def _disturb_index(files: Files, chance: random.Random) -> None:
    """Put anything into the memory that processes share: it is a file, and nothing synchronizes it."""
    for path in [path for path in files if path.endswith("-shm")]:
        match chance.randint(0, 2):
            case 0:
                del files[path]
            case 1:
                files[path] = chance.randbytes(len(files[path]))


class Ledger:
    """What was asked and answered so far in a recording, and the check of a state against it."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._asked: list[Request] = []
        self._answered = 0
        self._model = Model()
        self._at = 0
        self._backups: dict[str, tuple[int, int | None]] = {}
        self._good_backups: set[bytes] = set()
        self._failed: set[int] = set()
        self._accepted: dict[str, int] = {}

    def hear(self, mark: Request) -> None:
        """Note a mark of the program."""
        if "do" in mark:
            if mark["do"] == "back_up":
                self._backups[mark["file"]] = self._answered, None
            self._asked.append(mark)
        elif "accepted" in mark:
            self._accepted[mark["accepted"]] = mark["count"]
        elif "answered" in mark:
            number = mark["answered"]
            if self._asked:
                request = self._asked[number - 1]
                if request["do"] == "back_up":
                    self._backups[request["file"]] = self._backups[request["file"]][0], len(self._asked)
                if mark["failed"]:
                    self._failed.add(number)
            self._answered = max(self._answered, number)

    async def check(self, files: Files, folder: Path, disk: Disk) -> list[str]:
        """Return what is wrong with the files of a state; nothing if all is as promised."""
        with _emptied(folder):
            _write(folder, files)
            if self._recording.is_server:
                return await self._check_server(folder)
            if self._recording.views is None:
                return await self._check_work(files, folder, disk)
            return await self._check_views(files, folder)

    async def _check_server(self, folder: Path) -> list[str]:
        """Everything that was accepted is there, in order, with nothing left out before what came later."""
        try:
            found = await _look(folder / DATA, NO_KEYS)
            said = [f"check: {line}" for line in check_file(folder / DATA).problems]
        except _TROUBLE as error:
            return [f"The store does not open: {_leaf(error)}"]
        events: dict[str, list[str]] = {}
        for lane in found["pending"].values():
            for _, name, instance, _ in lane:
                events.setdefault(instance, []).append(name)
        for instance, count in self._accepted.items():
            there = events.get(instance, [])
            if instance not in found["instances"]:
                said.append(f"The instance {instance} is gone.")
            if len(there) < count or there != [f"e{number}" for number in range(1, len(there) + 1)]:
                said.append(f"{count} events of {instance} were accepted, and these are there: {there}")
        return said

    async def _check_work(self, files: Files, folder: Path, disk: Disk) -> list[str]:
        while self._at < self._answered:
            request = self._asked[self._at]
            if request["do"] != "scrub" or request["number"] not in self._failed:
                self._model.apply(request)
            self._at += 1
        said = self._check_scrubbed(files, disk)
        said += [
            line
            for name, spell in self._backups.items()
            for line in await self._check_backup(folder, name, spell)
        ]
        path = folder / DATA
        try:
            async with open_store(path, clock=Clock()) as store:
                found = await look(store)
                closest = self._match(self._model, found, self._asked[self._answered :])
                said += closest
                said += [f"check: {line}" for line in check_file(path).problems]
                if not said:
                    said += await self._check_ids(store, found)
        except _TROUBLE as error:
            said.append(f"The store does not open: {_leaf(error)}")
        return said

    def _match(self, model: Model, found: View, further: list[Request]) -> list[str]:
        """Return nothing if some of the further requests make of the model what was found."""
        first = differences(model.view(), found)
        if not first:
            return []
        model = model.copy()
        for request in further:
            if request["do"] == "retain" and not differences(
                model.view(), found, model.old(request["before"])
            ):
                return []
            model.apply(request)
            if not differences(model.view(), found):
                return []
        return [
            f"after {self._answered} of {self._answered + len(further)} requests: {line}" for line in first
        ]

    async def _check_ids(self, store: Store, found: View) -> list[str]:
        """Events that are known are duplicates, and new deliveries get new numbers."""
        known = sorted(self._model.ids)
        for instance, name in known[:: max(1, len(known) // 3)]:
            if await store.append(to(name, instance=instance)) != [False]:
                return [f"The event {name} of {instance} comes a second time."]
        highest = max([*self._model.deliveries, *found["finished"], 0])
        await store.append(to("new"))
        view = await look(store)
        [seq] = [seq for seq, name, *_ in view["pending"]["reg_1:0"] if name == "new"]
        return [] if seq > highest else [f"A new delivery has the number {seq}, and {highest} was given."]

    def _check_scrubbed(self, files: Files, disk: Disk) -> list[str]:
        """What was erased, and scrubbed, does not come back."""
        back = [
            (path, secret)
            for path, content in files.items()
            if path.startswith(DATA)
            for secret in self._model.scrubbed
            if secret in content
        ]
        # What SQLite left between the cells of a page, without any power cut, is another matter.
        left = disk.everything() if back else {}
        return [
            f"{path} has {secret.decode()}, which was erased."
            for path, secret in back
            if secret not in left.get(path, b"")
        ]

    async def _check_backup(self, folder: Path, name: str, spell: tuple[int, int | None]) -> list[str]:
        file = folder / name
        begun, ended = spell
        if not file.exists():
            return [] if ended is None else [f"The backup {name} is gone."]
        print_of = hashlib.sha256(file.read_bytes()).digest()
        if print_of in self._good_backups:
            return []
        model = Model()
        for request in self._asked[:begun]:
            model.apply(request)
        copy = folder / "copy" / "hookgw.db"
        copy.parent.mkdir(mode=0o700)
        shutil.copy(file, copy)
        try:
            async with open_store(copy, clock=Clock()) as store:
                found = await look(store)
            problems = check_file(copy).problems
        except _TROUBLE as error:
            return [f"The backup {name} does not open: {_leaf(error)}"]
        finally:
            shutil.rmtree(copy.parent)
        problems += self._match(model, found, self._asked[begun:ended])
        if not problems:
            self._good_backups.add(print_of)
        return [f"The backup {name}: {line}" for line in problems]

    async def _check_views(self, files: Files, folder: Path) -> list[str]:
        recording, path, has_answered = self._recording, folder / "hookgw.db", self._answered > 0
        said = []
        if has_answered and recording.forbidden is not None:
            said += [
                f"{name} has {recording.forbidden!r}."
                for name in files
                if name in ("hookgw.db", "hookgw.db-wal") and recording.forbidden in files[name]
            ]
        copies = _copies(folder)
        for copy in copies:
            said += await self._check_copy(copy)
        if not path.exists() and (folder / ".hookgw.db.restore").exists():
            # No start makes an empty file here.
            try:
                await _look(path, recording.keys)
                said.append("The store opens in the middle of a restore.")
            except StartError:
                restore_file(folder / "backup.db", path, force=False)
        try:
            found = await _look(path, recording.keys)
            said += [f"check: {line}" for line in check_file(path).problems]
        except _TROUBLE as error:
            return [*said, f"The store does not open: {_leaf(error)}"]
        allowed = (recording.promised,) if has_answered else (*(recording.views or ()), recording.promised)
        if found not in allowed:
            said += differences(recording.promised or {}, found)
        if recording.former not in (None, recording.promised) and found == recording.promised:
            said += await self._check_aside(folder)
        if recording.version is not None and not copies and not _copies(folder):
            said.append("The file was migrated, and there is no copy of the former one.")
        return said

    async def _check_aside(self, folder: Path) -> list[str]:
        """The former file is not lost."""
        for name in ("hookgw.db.before-restore", "hookgw.db.before-restore-wal"):
            if (folder / name).exists():
                (folder / name).rename(folder / name.replace("hookgw.db.before-restore", "former.db"))
        try:
            found = await _look(folder / "former.db", NO_KEYS)
        except _TROUBLE as error:
            return [f"The former file does not open: {_leaf(error)}"]
        return [f"The former file: {line}" for line in differences(self._recording.former or {}, found)]

    async def _check_copy(self, copy: Path) -> list[str]:
        """A copy of the former file is whole from the moment on in which it has its name."""
        with _folder() as folder:
            shutil.copy(copy, folder / "hookgw.db")
            try:
                with closing(sqlite3.connect(folder / "hookgw.db")) as connection:
                    version = connection.execute("PRAGMA user_version").fetchone()[0]
                found = await _look(folder / "hookgw.db", self._recording.keys)
                problems = check_file(folder / "hookgw.db").problems
            except _TROUBLE as error:
                return [f"The copy {copy.name} does not open: {_leaf(error)}"]
        if version != self._recording.version:
            problems.append(f"schema {version}")
        problems += differences(self._recording.promised or {}, found)
        return [f"The copy {copy.name}: {line}" for line in problems]


def _leaf(error: BaseException) -> BaseException:
    """Return the first error in a group of errors."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _copies(folder: Path) -> list[Path]:
    return [file for file in folder.glob("*.schema-*") if file.name.rpartition("-")[2].isdigit()]


# Folders


@contextmanager
def _folder() -> Iterator[Path]:
    # In memory if there is such a folder: thousands of states are written and synchronized.
    memory = Path("/dev/shm")
    base = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=base, prefix="hookgw-power-") as folder:
        yield Path(folder)


@contextmanager
def _emptied(folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        for one in folder.iterdir():
            if one.is_dir():
                shutil.rmtree(one)
            else:
                one.unlink()


def _write(folder: Path, files: Files) -> None:
    for name, content in files.items():
        path = folder / name
        if name.endswith("/"):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            continue
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o600)
