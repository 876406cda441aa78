"""What a disk may hold after a power cut, from what was written and synchronized until then.

The rules for contents are those of POSIX: what was written to a file before the last completed ``fsync`` of
that file began is on disk. Of everything later, the system may have written any part, in any order, and each
sector at any moment: on disk, a sector is as it was in memory after any of the later writes, or before all of
them. The size of the file is any of its sizes since then.

There are two sets of rules for names:

- ``journal``, as in ext4 and XFS: names change on disk in the order in which they changed in memory. To
  synchronize a folder brings all changes of names so far to disk; to synchronize a file, those up to the
  newest one that concerns this file, so that the ``fsync`` of a new file brings its name, too.
- ``posix``: only to synchronize a folder brings the changes of its names to disk. Of the later ones, each may
  be there or not, independently of all others. A rename is one change.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Collection, Mapping
from itertools import takewhile
from typing import Literal, NamedTuple, TypeAlias

from tests.simulation.power.operations import (
    FOLDER,
    Link,
    Operation,
    Rename,
    Sync,
    Truncate,
    Unlink,
    Write,
)

Names: TypeAlias = Literal["journal", "posix"]
Files: TypeAlias = dict[str, bytes]
"""Contents by path below the folder; a path that ends with ``/`` is a folder."""


class Rules(NamedTuple):
    """How a disk behaves.

    Attributes:
        names: see the text above.
        sector: the bytes that are written as one, 512 or 4096.
        fills: whether zeros are where a file grew and its bytes are not on disk; if not, anything is there,
            such as parts of deleted files.
    """

    names: Names = "posix"
    sector: int = 512
    fills: bool = True


EVERY_RULES = tuple(
    Rules(names, sector, fills)
    for names in ("journal", "posix")
    for sector in (512, 4096)
    for fills in (True, False)
)

# What is lost of the changes that were not synchronized: everything; nothing; all after a moment; all changes
# of some files; some changes; one change; all but one; each sector has a version of its own.
MOODS = ("none", "all", "until", "files", "changes", "all but one", "one", "sectors")


class _Change(NamedTuple):
    """A change of a file that may not be on disk: bytes at an offset, or (without bytes) another size."""

    at: int
    offset: int
    data: bytes | None


class _File:
    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)
        self.pending: list[_Change] = []

    def sync(self, begun: int) -> None:
        while self.pending and self.pending[0].at < begun:
            _apply(self.content, self.pending.pop(0))

    def now(self) -> bytes:
        return self.at(len(self.pending))

    def at(self, count: int) -> bytes:
        """Return the content with the first changes."""
        content = bytearray(self.content)
        for change in self.pending[:count]:
            _apply(content, change)
        return bytes(content)


class _Naming(NamedTuple):
    """A change of names: what each name in a folder means from then on; ``None`` for nothing."""

    at: int
    names: tuple[tuple[int, str, int | None], ...]


class Disk:
    """A folder on a disk, while operations happen.

    Args:
        found: files that are on it already, by name.
    """

    def __init__(self, found: Mapping[str, bytes]) -> None:
        self._files: dict[int, _File] = {}
        # What is certain, by rules, and what is not.
        self._folders: dict[int, dict[str, int]] = {FOLDER: {}}
        self._kept: dict[Names, dict[tuple[int, str], int]] = {"journal": {}, "posix": {}}
        self._pending: dict[Names, list[_Naming]] = {"journal": [], "posix": []}
        self._count = 0
        for node, name in enumerate(sorted(found), 1):
            self._files[node] = _File(found[name])
            self._folders[FOLDER][name] = node
            for kept in self._kept.values():
                kept[FOLDER, name] = node

    def copy(self) -> Disk:
        return copy.deepcopy(self)

    def do(self, operation: Operation) -> None:
        match operation:
            case Write(node, offset, data):
                self._files[node].pending.append(_Change(self._count, offset, data))
            case Truncate(node, size):
                self._files[node].pending.append(_Change(self._count, size, None))
            case Link(folder, name, node, is_folder):
                if is_folder:
                    self._folders[node] = {}
                else:
                    self._files.setdefault(node, _File())
                self._name((folder, name, node))
            case Unlink(folder, name):
                self._name((folder, name, None))
            case Rename(folder, name, to_folder, to_name):
                self._name((folder, name, None), (to_folder, to_name, self._folders[folder][name]))
            case Sync(node, begun):
                self._sync(node, begun)
        self._count += 1

    def everything(self) -> Files:
        """Return the files as the program sees them."""
        names = {
            (folder, name): node for folder, held in self._folders.items() for name, node in held.items()
        }
        return {
            path: self._files[node].now()
            for path, node in _paths(names, self._folders)
            if not path.endswith("/")
        }

    def cut(self, rules: Rules, chance: random.Random, mood: str | None = None) -> Files:
        """Return what the disk may hold if the power fails now.

        Args:
            rules: of this disk.
            chance: chooses among the possibilities.
            mood: one of :data:`MOODS`; by default any.
        """
        mood = mood or chance.choice(MOODS)
        naming = self._pending[rules.names]
        moments = [change.at for file in self._files.values() for change in file.pending]
        moments += [change.at for change in naming]
        moment = chance.choice(moments) if moments else 0
        share = chance.random()
        lost = {at for at in moments if chance.random() < share}

        def has(at: int) -> bool:
            return {"none": False, "all": True, "until": at <= moment, "one": at == moment}.get(
                mood, at != moment if mood == "all but one" else at not in lost
            )

        names = dict(self._kept[rules.names])
        if rules.names == "journal":
            # In order, so all of them up to one.
            until = next((i for i, change in enumerate(naming) if not has(change.at)), len(naming))
            kept = naming[: chance.choice((until, chance.randint(0, len(naming))))]
        else:
            kept = [change for change in naming if has(change.at)]
        for change in kept:
            for folder, name, node in change.names:
                if node is None:
                    names.pop((folder, name), None)
                else:
                    names[folder, name] = node
        return {
            path: b"" if path.endswith("/") else self._content(self._files[node], rules, chance, mood, has)
            for path, node in _paths(names, self._folders)
        }

    def _content(  # noqa: C901 -- reads once from top to bottom
        self, file: _File, rules: Rules, chance: random.Random, mood: str, has: Callable[[int], bool]
    ) -> bytes:
        pending = file.pending
        if not pending or mood == "none":
            return bytes(file.content)
        if mood == "all":
            return file.now()
        if mood == "until":
            return file.at(sum(has(change.at) for change in pending))
        if mood == "files":
            return file.now() if chance.random() < 0.5 else bytes(file.content)
        # Each change as bytes at an offset: a cut is zeros up to the former end.
        written: list[tuple[int, bytes]] = []
        sizes = [len(file.content)]
        touched: dict[int, list[int]] = {}
        for number, change in enumerate(pending, 1):
            start = change.offset
            data = bytes(max(0, sizes[-1] - start)) if change.data is None else change.data
            written.append((start, data))
            sizes.append(start if change.data is None else max(sizes[-1], start + len(data)))
            for sector in _sectors(start, data, rules.sector):
                touched.setdefault(sector, []).append(number)
        # For each sector, the number of the change after which it was written; 0 for none of them.
        versions: dict[int, int] = {}
        for sector, numbers in touched.items():
            versions[sector] = chance.choice([0, *numbers]) if mood == "sectors" else 0
            if mood == "one":
                versions[sector] = max(
                    (number for number in numbers if has(pending[number - 1].at)), default=0
                )
            elif mood != "sectors":
                # In memory a later change comes on top of the earlier ones, so none can be without those.
                there = takewhile(lambda number: has(pending[number - 1].at), numbers)
                versions[sector] = max(there, default=0)
        content = bytearray(max(sizes))
        content[: len(file.content)] = file.content
        for number, (start, data) in enumerate(written, 1):
            for sector in _sectors(start, data, rules.sector):
                if versions[sector] >= number:
                    first = max(start, sector * rules.sector)
                    last = min(start + len(data), (sector + 1) * rules.sector)
                    content[first:last] = data[first - start : last - start]
        if not rules.fills:
            for sector, version in versions.items():
                start = sector * rules.sector
                if not version and start >= len(file.content):
                    end = min(start + rules.sector, len(content))
                    content[start:end] = chance.randbytes(end - start)
        return bytes(content[: chance.choice((sizes[-1], max(sizes), chance.choice(sizes)))])

    def _name(self, *changes: tuple[int, str, int | None]) -> None:
        for folder, name, node in changes:
            if node is None:
                self._folders[folder].pop(name, None)
            else:
                self._folders[folder][name] = node
        for pending in self._pending.values():
            pending.append(_Naming(self._count, changes))

    def _sync(self, node: int, begun: int) -> None:
        if node in self._files:
            self._files[node].sync(begun)
            concerning = [
                change.at
                for change in self._pending["journal"]
                if change.at < begun and any(named == node for _, _, named in change.names)
            ]
            self._keep("journal", lambda change: bool(concerning) and change.at <= concerning[-1])
            return
        self._keep("journal", lambda change: change.at < begun)
        self._keep(
            "posix", lambda change: change.at < begun and any(folder == node for folder, _, _ in change.names)
        )

    def _keep(self, rules: Names, is_on_disk: Callable[[_Naming], bool]) -> None:
        kept = self._kept[rules]
        for change in self._pending[rules]:
            if is_on_disk(change):
                for folder, name, node in change.names:
                    if node is None:
                        kept.pop((folder, name), None)
                    else:
                        kept[folder, name] = node
        self._pending[rules] = [change for change in self._pending[rules] if not is_on_disk(change)]


def _sectors(start: int, data: bytes, size: int) -> range:
    return range(start // size, -(-(start + len(data)) // size)) if data else range(0)


def _apply(content: bytearray, change: _Change) -> None:
    if change.data is None:
        if change.offset <= len(content):
            del content[change.offset :]
        else:
            content.extend(bytes(change.offset - len(content)))
        return
    if change.offset > len(content):
        content.extend(bytes(change.offset - len(content)))
    content[change.offset : change.offset + len(change.data)] = change.data


def _paths(names: Mapping[tuple[int, str], int], folders: Collection[int]) -> list[tuple[str, int]]:
    """Return the path of each file and folder that can be reached, and its number."""
    held: dict[int, list[tuple[str, int]]] = {}
    for (folder, name), node in names.items():
        held.setdefault(folder, []).append((name, node))
    found: list[tuple[str, int]] = []
    waiting = [("", FOLDER)]
    while waiting:
        start, folder = waiting.pop()
        for name, node in held.get(folder, []):
            if node in folders:
                waiting.append((f"{start}{name}/", node))
                found.append((f"{start}{name}/", node))
            else:
                found.append((start + name, node))
    return found
