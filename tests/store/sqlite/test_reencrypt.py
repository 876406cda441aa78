"""Records under a master key: encrypted at start, with a new key, in the clear again; and refused keys."""

import signal
import sqlite3
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hookgw import Registration
from tests.public.config import MasterKeys
from tests.public.kernel import Secret, StartError, StorageUnavailable
from tests.public.records import Instance, TlsIdentity
from tests.public.store import ConnectorState, key_id
from tests.store.sqlite.support import child, opened, peek
from tests.store.support import to

A, B, C = (bytes([number] * 32) for number in (1, 2, 3))
SHOP = Instance(name="shop", id="0b0c", options={"api_token": "planted-credential"})
HOOK = Registration(
    id="reg_1",
    instance="shop",
    url="https://u:planted-password@receiver.test/",
    headers={"x-key": "planted-header"},
    secrets=(Secret("whsec_planted-secret"), Secret("whsec_planted-old-secret", 5.0)),
    tls=TlsIdentity(client_certificate="planted-certificate", client_key="planted-key"),
)
# In the clear, it must not be taken for a record that is encrypted.
STATE = ConnectorState(instance="shop", instance_id="0b0c", state_json=b'"sealed:v1:planted-token"')
PLANTED = b"planted"


async def fill(path: Path, keys: MasterKeys, *, more: int = 0) -> None:
    async with opened(path, keys=keys) as store:
        await store.put_instance(SHOP)
        await store.put_registration(HOOK)
        await store.put_value("auth.salt", "planted-salt")
        await store.append([], state=STATE)
        for number in range(more):
            await store.put_value(f"more.{number}", f"planted-{number}")


async def check(path: Path, keys: MasterKeys) -> None:
    async with opened(path, keys=keys) as store:
        assert await store.load_instances() == {"shop": SHOP}
        assert await store.load_registrations() == {"reg_1": HOOK}
        assert await store.get_value("auth.salt") == "planted-salt"
        assert await store.load_state("0b0c") == "sealed:v1:planted-token"


def contents(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.iterdir())


def ids_in(path: Path) -> set[str]:
    return {str(row[0]) for row in peek(path, "SELECT substr(CAST(value AS TEXT), 1, 27) FROM shelves")}


def only(key: bytes) -> set[str]:
    return {f'"sealed:v1:{key_id(key)}'}


async def test_nothing_of_a_record_is_on_disk_in_the_clear(path: Path) -> None:
    await fill(path, MasterKeys(A))
    assert PLANTED not in contents(path)
    assert ids_in(path) == only(A)
    await check(path, MasterKeys(A))


async def test_while_it_is_open_nothing_is_in_the_clear_either(path: Path) -> None:
    async with opened(path, keys=MasterKeys(A)) as store:
        await store.put_registration(HOOK)
        await store.append(to("e1"))
        assert PLANTED not in contents(path)
        assert await store.load_registrations() == {"reg_1": HOOK}
        await store.remove_registration("reg_1")
        assert await store.load_registrations() == {}


async def test_what_was_in_the_clear_is_sealed_at_the_next_start(path: Path) -> None:
    await fill(path, MasterKeys(), more=50)
    async with opened(path, keys=MasterKeys()) as store:
        for number in range(0, 50, 2):  # leaves free pages and cells behind
            await store.put_value(f"more.{number}", "planted" * 2000)
        await store.put_registration(HOOK)
        await store.append(to("e1", "e2"))
    assert PLANTED in contents(path)
    async with opened(path, keys=MasterKeys(A)):
        assert PLANTED not in contents(path)
    assert PLANTED not in contents(path)
    assert ids_in(path) == only(A)
    assert peek(path, "SELECT id FROM events") == [("e1",), ("e2",)]
    await check(path, MasterKeys(A))


async def test_that_is_told_once(path: Path) -> None:
    """Whoever puts a file in the clear in the place of a sealed one is told of by it."""
    with capture_logs() as logs:
        await fill(path, MasterKeys())
        for key in (A, A, B):
            await check(path, MasterKeys(key, (A,)))
    told = [line["log_level"] for line in logs if line["event"] == "records were in the clear, encrypted now"]
    assert told == ["warning"]


async def test_a_new_key_takes_the_place_of_the_old_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookgw.store.reencrypt.PAGE", 3)
    await fill(path, MasterKeys(A), more=10)
    with capture_logs() as logs:
        await check(path, MasterKeys(B, (A,)))
        await check(path, MasterKeys(B, (A,)))
    sealed = {"event": "data file encrypted", "log_level": "info", "file": str(path), "key": key_id(B)}
    assert logs.count(sealed) == 1
    assert ids_in(path) == only(B)
    assert key_id(A).encode() not in contents(path)
    await check(path, MasterKeys(B))
    await check(path, MasterKeys(B, (A, C)))
    with pytest.raises(StartError):
        await check(path, MasterKeys(A))


async def test_records_of_several_keys_end_up_under_one(path: Path) -> None:
    await fill(path, MasterKeys(A))
    other = path.parent.parent / "other" / "hookgw.db"
    await fill(other, MasterKeys(B))
    rows = peek(other, "SELECT value FROM shelves WHERE key = CAST('auth.salt' AS BLOB)")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE shelves SET value = ? WHERE key = CAST('auth.salt' AS BLOB)", rows[0])
    connection.close()
    await check(path, MasterKeys(C, (A, B)))
    assert ids_in(path) == only(C)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (MasterKeys(), "no master key is configured.*storage.master_key .*HOOKGW_MASTER_KEY"),
        (MasterKeys(B), f"storage.old_master_keys have only {key_id(B)}"),
        (MasterKeys(None, (B,), unseal=True), f"{key_id(A)}.*put that key into storage.old_master_keys"),
        (MasterKeys(None, unseal=True), f"{key_id(A)}.*put that key into storage.old_master_keys"),
        (MasterKeys(None, (A,)), "storage.master_key is not set.*storage.master_key: clear"),
    ],
)
async def test_a_wrong_or_missing_key_stops_the_start(path: Path, keys: MasterKeys, said: str) -> None:
    await fill(path, MasterKeys(A))
    before = peek(path, "SELECT * FROM shelves")
    with pytest.raises(StartError, match=said) as caught:
        await check(path, keys)
    assert str(path) in str(caught.value)
    assert peek(path, "SELECT * FROM shelves") == before
    await check(path, MasterKeys(A))


async def test_a_file_without_records_knows_its_key(path: Path) -> None:
    async with opened(path, keys=MasterKeys(A)):
        pass
    with pytest.raises(StartError, match=key_id(A)):
        async with opened(path, keys=MasterKeys(B)):
            pass


async def test_sealed_records_can_be_in_the_clear_again(path: Path) -> None:
    await fill(path, MasterKeys(A))
    with capture_logs() as logs:
        await check(path, MasterKeys(None, (A,), unseal=True))
    assert {"event": "data file decrypted", "log_level": "info", "file": str(path)} in logs
    assert PLANTED in contents(path)
    await check(path, MasterKeys())
    await check(path, MasterKeys(None, (), unseal=True))
    await check(path, MasterKeys(B))
    assert ids_in(path) == only(B)


async def tamper(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()


async def test_a_record_in_the_clear_among_sealed_ones_stops_the_start(path: Path) -> None:
    await fill(path, MasterKeys(A))
    await tamper(path, "UPDATE shelves SET value = '\"mine\"' WHERE key = CAST('auth.salt' AS BLOB)")
    for keys in (MasterKeys(A), MasterKeys(B, (A,)), MasterKeys(None, (A,), unseal=True)):
        with pytest.raises(StartError, match="in the clear among encrypted ones"):
            await check(path, keys)


SWAP = """UPDATE shelves SET value = (SELECT value FROM shelves WHERE shelf = 'values')
    WHERE shelf = 'registrations'"""


async def test_records_cannot_change_places(path: Path) -> None:
    await fill(path, MasterKeys(A))
    await tamper(path, SWAP)
    async with opened(path, keys=MasterKeys(A)) as store:
        with pytest.raises(StorageUnavailable, match=r"registrations, 'reg_1' .*moved from the place"):
            await store.load_registrations()
    with pytest.raises(
        StartError, match=r"registrations, 'reg_1' cannot be decrypted .*moved from the place"
    ):
        await check(path, MasterKeys(B, (A,)))
    assert ids_in(path) == only(A)


async def test_what_is_put_in_the_clear_at_run_time_is_not_read(path: Path) -> None:
    async with opened(path, keys=MasterKeys(A)) as store:
        await tamper(path, "INSERT INTO shelves VALUES ('values', CAST('x' AS BLOB), x'226d696e6522')")
        with pytest.raises(StorageUnavailable, match="in the clear"):
            await store.get_value("x")


KILLED = """
import os, signal, sys
from pathlib import Path
from hookgw.config.master_keys import MasterKeys
from hookgw.store.sqlite import reencrypt
from hookgw.store.sqlite.database import open_database

path, moment = Path(sys.argv[1]), int(sys.argv[2])
records = reencrypt.records_of
def dying(connection, statement):
    for count, record in enumerate(records(connection, statement), 1):
        if count == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        yield record
reencrypt.records_of = dying
with open_database(path) as connections:
    reencrypt.reencrypt(connections.writer, MasterKeys(bytes([2] * 32), (bytes([1] * 32),)), path)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.process
@pytest.mark.parametrize("before", [MasterKeys(), MasterKeys(A)], ids=["clear", "sealed"])
@pytest.mark.parametrize("moment", [1, 5, 12, 1000])
async def test_a_kill_while_sealing_leaves_one_or_the_other(
    path: Path, before: MasterKeys, moment: int
) -> None:
    await fill(path, before, more=10)
    killed = child(KILLED, path, str(moment))
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    await check(path, MasterKeys(B, (A,)))
    assert ids_in(path) == only(B)
    assert PLANTED not in contents(path)


async def test_without_keys_nothing_is_rewritten(path: Path) -> None:
    await fill(path, MasterKeys())
    before = peek(path, "SELECT * FROM shelves")
    await check(path, MasterKeys())
    assert peek(path, "SELECT * FROM shelves") == before
