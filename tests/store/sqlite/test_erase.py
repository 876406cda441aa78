"""What erasing leaves in the files: nothing."""

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hookgw.store.sqlite import checkpoints, erase
from tests.public.concurrency import Clock
from tests.public.store import Append, open_store
from tests.store.support import delivered, event, failed, seqs_of, settle, to

PERSON = "5511988887777"
LATE = 9e9


def files_with(folder: Path, text: bytes) -> list[str]:
    return [file.name for file in folder.iterdir() if text in file.read_bytes()]


@pytest.mark.parametrize("size", [10, 3_000, 100_000], ids=["small", "a page", "many pages"])
async def test_no_byte_stays_in_the_files(tmp_path: Path, size: int) -> None:
    path = tmp_path / "hookgw.db"
    jid = f"{PERSON}@s.whatsapp.net"
    text = (f"{PERSON} " * size)[:size]
    async with open_store(path, clock=Clock()) as store:
        for number in range(6):
            await store.append(to(f"e{number}", data=json.dumps({"remoteJid": jid, "text": text})))
            await store.append(to(f"other{number}", data=json.dumps({"text": "x" * size})))
        assert files_with(tmp_path, PERSON.encode())
        for seq in (await seqs_of(store))[::2]:
            await settle(store, failed(seq, body=text.encode(), head=text), delivered(seq, number=2))
        cursor: str | None = await store.cancel_cursor()
        while cursor is not None:
            page = await store.find_concerned("shop", jid, cursor)
            if page.events:
                await store.erase(page.events, jid)
            cursor = page.cursor
        assert await store.scrub()
        assert files_with(tmp_path, PERSON.encode()) == []


async def test_no_byte_stays_where_rows_were_before_an_erasure_moved_them(tmp_path: Path) -> None:
    # SQLite joins pages when rows go, and does not overwrite what it leaves behind. With this seed, erasing
    # rows that were not blank left two of them there.
    chance = random.Random(25)
    appends = []
    for number in range(150):
        person = f"person-{chance.randint(1, 2)}."
        text = person + "x" * chance.choice((1, 99, 99, 1500))
        appends += to(f"e{number}", data=json.dumps({"remoteJid": person, "text": text}))
    async with open_store(tmp_path / "hookgw.db", clock=Clock()) as store:
        await store.append(appends)
        found = await store.find_concerned("shop", "person-1.", await store.cancel_cursor())
        assert (await store.erase(found.events, "person-1.")).left == 0
        assert await store.scrub()
        assert files_with(tmp_path, b"person-1.") == []
        assert files_with(tmp_path, b"person-2.")


@pytest.mark.parametrize("size", [40, 900, 6_000, 100_000])
@pytest.mark.parametrize("keep_history", [True, False])
async def test_nothing_stays_of_what_retention_removed(tmp_path: Path, size: int, keep_history: bool) -> None:
    path = tmp_path / "hookgw.db"
    text = ("secret " * size)[:size]
    async with open_store(path, clock=Clock(), keep_history=keep_history) as store:
        for number in range(50):
            await store.append(to(f"e{number}", data=json.dumps({"text": text})))
        seqs = await seqs_of(store)
        await settle(store, *(failed(seq, body=text.encode(), head=text) for seq in seqs[::2]))
        await settle(store, *(delivered(seq, number=2) for seq in seqs))
        assert files_with(tmp_path, b"secret ")
        await store.enforce_retention(before=LATE, limit=2**40)
        # An erasure of anybody else empties the log, too.
        assert await store.scrub()
        assert files_with(tmp_path, b"secret ") == []
    assert files_with(tmp_path, b"secret ") == []


async def test_nothing_of_it_stays_after_a_stop(tmp_path: Path) -> None:
    async with open_store(tmp_path / "hookgw.db", clock=Clock()) as store:
        await store.append(to(*(f"e{number}" for number in range(50)), data=json.dumps("secret " * 900)))
        await settle(store, *map(delivered, await seqs_of(store)))
        await store.enforce_retention(before=LATE, limit=2**40)
    assert files_with(tmp_path, b"SQLite format 3") == ["hookgw.db"]
    assert files_with(tmp_path, b"secret ") == []


async def test_retention_keeps_the_payload_that_another_delivery_needs(tmp_path: Path) -> None:
    async with open_store(tmp_path / "hookgw.db", clock=Clock()) as store:
        both = (("reg_1", "reg_1:0"), ("reg_2", "reg_2:0"))
        await store.append([Append(event("e1", data='{"text": "secret"}'), both)])
        (first,), (second,) = await seqs_of(store), await seqs_of(store, "reg_2:0")
        await settle(store, delivered(first))
        assert await store.enforce_retention(before=LATE, limit=2**40) == 1
        report = await store.find_delivery("shop", "e1")
        assert report is not None
        assert (report.summary.seq, report.event.data_json) == (second, b'{"text": "secret"}')


async def test_a_read_that_is_in_the_way_is_waited_for_and_then_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "EMPTY_TRIES", 2)
    path = tmp_path / "hookgw.db"
    async with open_store(path, clock=Clock()) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM events").fetchall()
            await store.append(to("e1"))
            assert not await store.scrub()
            await store.append(to("e2"))
            reader.execute("COMMIT")
        assert await store.scrub()
        assert path.with_name("hookgw.db-wal").stat().st_size == 0


async def test_a_search_is_cut_by_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erase, "SEARCH_BYTES", 150)
    async with open_store(tmp_path / "hookgw.db", clock=Clock()) as store:
        await store.append(to("e1", "e2", "e3", data=json.dumps({"remoteJid": "a@b", "text": "x" * 80})))
        cursor: str | None = await store.cancel_cursor()
        sizes = []
        while cursor is not None:
            page = await store.find_concerned("shop", "a@b", cursor)
            sizes.append(len(page.events))
            cursor = page.cursor
        assert sizes == [2, 1, 0]  # the last one looks at events without deliveries
