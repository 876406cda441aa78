"""The states of connectors: stored with events, in one commit."""

from typing import Any

import msgspec
import pytest
import trio

from hookgw import Invalid
from hookgw.records.rhythms import StoredRhythm
from tests.public.config import MasterKeys
from tests.public.records import Instance
from tests.public.store import Append, ConnectorState, Store
from tests.store.conformance.engines import Engine
from tests.store.support import Listener, event, ids_of, to

SHOP = Instance(name="shop", id="0b0c")
KEYS = [MasterKeys(), MasterKeys(bytes(32))]


def state(value: Any, instance_id: str = "0b0c") -> ConnectorState:
    return ConnectorState(instance="shop", instance_id=instance_id, state_json=msgspec.json.encode(value))


@pytest.mark.parametrize("keys", KEYS, ids=["clear", "encrypted"])
@pytest.mark.parametrize("value", [{"since": "s1", "n": [1, 2.5, None, "ü"]}, "sealed:v1:x", [], None, 2**80])
async def test_a_state_outlasts_a_restart(engine: Engine, keys: MasterKeys, value: Any) -> None:
    given = ConnectorState(instance="shop", instance_id="0b0c", state_json=repr(value).encode())
    if not isinstance(value, int):
        given = state(value)
    async with engine.open(keys=keys) as store:
        assert await store.load_state("0b0c") is None
        assert await store.append(to("e1"), state=given) == [True]
    async with engine.open(keys=keys) as store:
        assert await store.load_state("0b0c") == value
        assert await store.load_state("other") is None
        assert await ids_of(store) == ["e1"]


async def test_a_state_without_events(store: Store) -> None:
    listener = Listener()
    store.subscribe(listener)
    assert await store.append([], state=state(1)) == []
    assert await store.append([], state=state(2)) == []
    assert await store.load_state("0b0c") == 2
    assert listener.calls == []


async def test_duplicates_do_not_hold_the_state_back(store: Store) -> None:
    await store.append(to("e1", "e2"), state=state("a"))
    assert await store.append(to("e1", "e2"), state=state("b")) == [False, False]
    assert await store.load_state("0b0c") == "b"


async def test_events_that_are_refused_leave_the_state(store: Store) -> None:
    await store.append([], state=state("before"))
    refused = Append(event("e1").replace(kind="\ud800"), ())
    async with trio.open_nursery() as nursery:
        # In the same commit: only the call with the bad value fails.
        nursery.start_soon(lambda: store.append(to("e2"), state=state("other", "1d")))
        with pytest.raises(Invalid):
            await store.append([*to("e3"), refused], state=state("after"))
    assert await store.load_state("0b0c") == "before"
    assert await store.load_state("1d") == "other"
    assert await ids_of(store) == ["e2"]


async def test_the_last_call_decides_the_state(store: Store) -> None:
    order: list[int] = []

    async def save(number: int) -> None:
        order.append(number)  # no checkpoint between this and the call
        await store.append(to(f"e{number}"), state=state(number))

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(save, number)
    assert await store.load_state("0b0c") == order[-1]


async def test_a_large_state(engine: Engine) -> None:
    value = {"crypto": "x" * 2**20}
    async with engine.open() as store:
        await store.append([], state=state(value))
    async with engine.open() as store:
        assert await store.load_state("0b0c") == value


async def test_a_state_goes_with_its_instance(store: Store) -> None:
    await store.put_instance(SHOP)
    await store.put_instance(Instance(name="cafe", id="1d"))
    await store.append([], state=state("of the shop"))
    await store.append([], state=state("of the cafe", "1d"))
    await store.remove_instance("shop", retired_as="shop 0b0c")
    assert await store.load_state("0b0c") is None
    assert await store.load_state("1d") == "of the cafe"


async def test_a_changed_instance_keeps_its_state(store: Store) -> None:
    await store.put_instance(SHOP)
    await store.append([], state=state("kept"))
    await store.put_instance(msgspec.structs.replace(SHOP, connected=True))
    assert await store.load_state("0b0c") == "kept"


@pytest.mark.parametrize("keys", KEYS, ids=["clear", "encrypted"])
async def test_what_is_counted_of_an_instance_outlasts_a_restart_and_goes_with_it(
    engine: Engine, keys: MasterKeys
) -> None:
    rhythm = StoredRhythm(heard_at=1.5, silent_from=2.5, quiet_since=None, newest=7, counts=[3, 0, 9])
    async with engine.open(keys=keys) as store:
        assert await store.load_rhythm("0b0c") is None
        assert await store.load_coverage("0b0c") is None
        await store.put_instance(SHOP)
        await store.put_rhythms({"0b0c": rhythm, "other": rhythm})
        await store.put_coverage({"0b0c": 1.0, "other": 2.0})
        await store.put_coverage({"0b0c": 3.5})
    async with engine.open(keys=keys) as store:
        assert await store.load_rhythm("0b0c") == rhythm
        assert (await store.load_coverage("0b0c"), await store.load_coverage("other")) == (3.5, 2.0)
        await store.remove_instance("shop")
        assert await store.load_rhythm("0b0c") is None
        assert await store.load_coverage("0b0c") is None
        assert await store.load_rhythm("other") == rhythm


@pytest.mark.parametrize("keys", KEYS, ids=["clear", "encrypted"])
async def test_the_records_of_a_plugin_outlast_a_restart_and_are_its_own(
    engine: Engine, keys: MasterKeys
) -> None:
    async with engine.open(keys=keys) as store:
        assert await store.load_plugin_records("alerts") == {}
        await store.put_plugin_records("alerts", {"a": {"n": 1}, "b": [1.5, "x", None]})
        await store.put_plugin_records("other", {"a": "theirs"})
        await store.put_plugin_records("alerts", {"a": None, "missing": None, "c": 3})
    async with engine.open(keys=keys) as store:
        assert await store.load_plugin_records("alerts") == {"b": [1.5, "x", None], "c": 3}
        assert await store.load_plugin_records("other") == {"a": "theirs"}
