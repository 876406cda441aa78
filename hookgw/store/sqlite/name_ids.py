"""Names that repeat in every row are stored once and referred to by a number."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping

import msgspec

from hookgw.store.sqlite.bulk import Bulk, as_json

# Bounds the memory: there may be more lanes by instance than this.
MAX_REMEMBERED = 100_000

# Begins the names of instances, because a kind or a registration may have the same name, and must keep it
# when the instance is retired. SQL removes the prefix with ``substr(name, 2)``.
_INSTANCE_PREFIX = "@"
# Begins the URLs of attempts, so that they are found when names are pruned.
_URL_PREFIX = ">"
# Begins the tags that have figures.
_TAG_PREFIX = "#"

_ADD = Bulk(
    "INSERT INTO names (name) SELECT column1 FROM",
    1,
    "WHERE column1 <> 0 ON CONFLICT (name) DO NOTHING",
)
FIND_NUMBERS = """SELECT json_group_object(name, number) FROM names
    WHERE name IN (SELECT value FROM json_each(?))"""

_NEWEST_DELIVERY = "SELECT coalesce(max(seq), 0) FROM deliveries"
_NAMES = """SELECT json_group_array(json_array(number, name)) FROM names
    WHERE number IN (SELECT value FROM json_each(?))"""

_pairs_of = msgspec.json.Decoder(list[tuple[int, str]]).decode


def of_instance(name: str) -> str:
    """Return the name under which an instance is stored in the table."""
    return _INSTANCE_PREFIX + name


def of_url(url: str) -> str:
    """Return the name under which the URL of an attempt is stored in the table."""
    return _URL_PREFIX + url


def of_tag(tag: str) -> str:
    """Return the name under which a tag is stored in the table."""
    return _TAG_PREFIX + tag


class NameIds:
    """The numbers of names, cached in memory; for the writing connection only.

    Attributes:
        newest_at_rename: the newest delivery when a name was changed last; 0 if none was since the start. Who
            read that delivery, or an older one, may know its instance by a former name.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.newest_at_rename = 0
        self._connection = connection
        self._ids: dict[str, int] = {}
        self._names: dict[int, str] = {}
        # During a walk: what was known and is forgotten again. ``None`` at other times.
        self._used: set[int] | None = None

    def ids(self, names: Iterable[str]) -> Mapping[str, int]:
        """Return a mapping that has at least the given names; unknown names are added to the data file.

        The mapping is valid until the next call. Call :meth:`forget` when the transaction is rolled back.
        """
        wanted = set(names)
        if not wanted <= self._ids.keys():
            # All at once, not the oldest: the names in use are learned again with one statement.
            if len(self._ids) + len(wanted) > MAX_REMEMBERED:
                self.forget()
            unknown = [name for name in wanted if name not in self._ids]
            _ADD.run(self._connection, [(name,) for name in unknown])
            rows = self._connection.execute(FIND_NUMBERS, (as_json(unknown),)).fetchone()[0]
            found = msgspec.json.decode(rows, type=dict[str, int])
            # The given strings are the keys: most are in memory anyway, while the decoded ones are copies.
            self._ids.update((name, found[name]) for name in unknown)
        return self._ids

    def names(self, numbers: Collection[int]) -> Mapping[int, str]:
        """Return a mapping that has at least the names of the given numbers."""
        if unknown := [number for number in numbers if number not in self._names]:
            if len(self._names) + len(unknown) > MAX_REMEMBERED:
                self._names = {}
                unknown = list(numbers)
            rows = self._connection.execute(_NAMES, (as_json(unknown),)).fetchone()[0]
            self._names.update(_pairs_of(rows))
        return self._names

    def rename(self, old: str, new: str) -> None:
        """Give a number another name. All rows that refer to the number show the new name at once."""
        self._connection.execute("UPDATE names SET name = ? WHERE name = ?", (new, old))
        # If this is rolled back, the number is too great: that does no harm.
        self.newest_at_rename = self._connection.execute(_NEWEST_DELIVERY).fetchone()[0]
        self.forget()

    def forget(self) -> None:
        """Empty the cache: names that were added may have been rolled back."""
        if self._used is not None:
            self._used.update(self._ids.values())
        self._ids, self._names = {}, {}

    def begin_walk(self) -> None:
        """Remember from now on which numbers are used; see :mod:`hookgw.store.sqlite.name_pruning`."""
        # Numbers in the cache would be used without a notice.
        self._used, self._ids = set(), {}

    def used_since_walk_began(self) -> set[int]:
        """Return all numbers that :meth:`ids` returned since :meth:`begin_walk`, and perhaps others."""
        if self._used is None:
            raise RuntimeError("There is no walk.")
        return self._used.union(self._ids.values())

    def end_walk(self) -> None:
        self._used = None
