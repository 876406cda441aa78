"""Shelves that are ``shelve.Shelf``s, hold JSON, and never unpickle."""

import os
import pickle
import shelve
import sqlite3
from collections.abc import Iterator, MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.public.kernel import StorageUnavailable
from tests.public.records import Instance
from tests.public.sqlite import SqliteTable, migrate
from tests.public.store import RecordShelf, Shelves
from tests.store.sqlite.support import opened, peek
from tests.store.support import HOOK, SHOP


@pytest.fixture
def shelves() -> Iterator[Shelves]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, Path(":memory:"))
    yield Shelves(partial(SqliteTable, connection))
    connection.close()


def test_a_shelf_is_the_standard_library_s(shelves: Shelves) -> None:
    shelf = shelves.instances
    assert isinstance(shelf, shelve.Shelf)
    assert isinstance(shelf, MutableMapping)
    assert len(shelf) == 0
    shelf["shop"] = SHOP
    shelf["é"] = SHOP
    assert (shelf["shop"], "shop" in shelf, "no" in shelf, len(shelf)) == (SHOP, True, False, 2)
    assert sorted(shelf) == ["shop", "é"]
    assert dict(shelf) == shelf.load() == {"shop": SHOP, "é": SHOP}
    shelf["shop"] = Instance(name="shop", id="new")
    assert shelf.pop("shop").id == "new"
    del shelf["é"]
    assert list(shelf) == []


@pytest.mark.parametrize("act", [lambda s: s["no"], lambda s: s.__delitem__("no"), lambda s: s.pop("no")])
def test_a_missing_key(shelves: Shelves, act) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(KeyError):
        act(shelves.instances)
    assert shelves.instances.get("no") is None


def test_shelves_do_not_mix(shelves: Shelves) -> None:
    shelves.instances["same"] = SHOP
    shelves.registrations["same"] = HOOK
    shelves.values["same"] = {"a": [1, None, "ü"]}
    assert shelves.instances["same"] == SHOP
    assert shelves.registrations["same"] == HOOK
    assert shelves.values["same"] == {"a": [1, None, "ü"]}
    del shelves.instances["same"]
    assert len(shelves.registrations) == 1


class Bomb:
    """Leaves a file behind where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.trace),)


def table_of(shelf: RecordShelf[Any]) -> MutableMapping[bytes, bytes]:
    table: MutableMapping[bytes, bytes] = shelf._table
    return table


@pytest.mark.parametrize(
    "read", [lambda s: s["evil"], lambda s: s.load(), lambda s: dict(s), lambda s: s.pop("evil")]
)
@pytest.mark.parametrize("name", ["instances", "registrations", "values"])
def test_a_planted_pickle_is_an_error(shelves: Shelves, tmp_path: Path, name: str, read) -> None:  # type: ignore[no-untyped-def]
    trace = tmp_path / "trace"
    shelf: RecordShelf[object] = getattr(shelves, name)
    table_of(shelf)[b"evil"] = pickle.dumps(Bomb(trace))
    with pytest.raises(StorageUnavailable, match=f"shelf {name}, 'evil' is not a valid record"):
        read(shelf)
    assert not trace.exists()


@pytest.mark.parametrize("value", [b"", b"{}", b'{"name": 1, "id": "x"}', b"\xff\xfe", b'"text"'])
def test_a_value_that_is_no_record_is_an_error(shelves: Shelves, value: bytes) -> None:
    table_of(shelves.instances)[b"shop"] = value
    with pytest.raises(StorageUnavailable, match="'shop' is not a valid record"):
        shelves.instances["shop"]


def test_what_is_stored_is_json(shelves: Shelves) -> None:
    shelves.registrations["reg_1"] = HOOK
    assert table_of(shelves.registrations)[b"reg_1"].startswith(b'{"id":"reg_1","instance":"shop"')


async def test_a_damaged_record_is_named_when_the_store_loads(path: Path) -> None:
    async with opened(path) as store:
        await store.put_instance(SHOP)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE shelves SET value = ?", (pickle.dumps({}),))
    connection.commit()
    connection.close()
    async with opened(path) as store:
        with pytest.raises(StorageUnavailable, match="shelf instances, 'shop'"):
            await store.load_instances()
        await store.check()


async def test_the_file_holds_no_pickle(path: Path) -> None:
    async with opened(path) as store:
        await store.put_instance(SHOP)
    assert all(bytes(value)[:1] == b"{" for (value,) in peek(path, "SELECT value FROM shelves"))  # type: ignore[call-overload]
