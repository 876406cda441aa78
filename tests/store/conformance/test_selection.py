"""Selections: lists, replays, cancellations and counts find the same deliveries."""

from typing import Any

import pytest

from hookgw import DeliveryState, Outcome
from hookgw.store import searches
from tests.public.records import DeliverySelection, Settlement
from tests.public.store import Append, CancelQuery, ReplayQuery, Store
from tests.store.conformance.engines import Engine
from tests.store.support import AT, RULE, attempt, event, ids_of, listed, replay, seqs_of, settle, to

JOHN = "5511999990001@s.whatsapp.net"
DATA = {
    "e1": f'{{"key": {{"remoteJid": "{JOHN}"}}, "text": "order 17"}}',
    "e2": '{"key": {"remoteJid": "5511999990001:3@s.whatsapp.net"}, "text": "ol\\u00e1 \\"x\\""}',
    "e3": '{"text": "olá", "number": "55119999900012"}',
    "e4": '{"participants": [{"lid": "1", "jid": "5511999990001@c.us"}]}',
}
SELECTIONS: list[tuple[dict[str, Any], str]] = [
    ({}, "e1 e2 e3 e4"),
    ({"error": "timed"}, "e2"),
    ({"error": "Not now"}, "e3"),
    ({"error": "%"}, ""),
    ({"status": (500, 599)}, "e1 e3"),
    ({"status": (503, 503)}, "e3"),
    ({"status": (100, 499)}, ""),
    ({"text": "order 17"}, "e1"),
    ({"text": 'á "x"'}, "e2"),
    ({"text": "olá"}, "e2 e3"),
    ({"text": "ORDER"}, ""),
    ({"text": "55119999900012"}, "e3"),
    ({"person": JOHN}, "e1 e2 e4"),
    ({"person": "order 17"}, "e1"),
    ({"person": "order"}, ""),
    ({"person": JOHN, "text": "order"}, "e1"),
    ({"person": JOHN, "status": (500, 599)}, "e1"),
    ({"failed_since": 3}, "e3 e4"),
    ({"failed_since": 3, "text": "t"}, "e3 e4"),
    ({"failed_since": 99}, ""),
    ({"kinds": ("CALL",)}, "e4"),
]


async def four(store: Store) -> list[int]:
    """Store four events whose first attempts went differently; return the numbers of their deliveries."""
    await store.append(
        [Append(event(name, data=DATA[name]), (("reg_1", "reg_1:0"),)) for name in ["e1", "e2", "e3"]]
    )
    await store.append(to("e4", kind="CALL", data=DATA["e4"]))
    await store.append(to("foreign", instance="other", registration="reg_2", data=DATA["e1"]))
    return await seqs_of(store)


def tried(seqs: list[int], state: DeliveryState) -> list[Settlement]:
    made = [
        attempt(1, Outcome.FAILED, status=500, error="The receiver answered 500.", answer=""),
        attempt(1, Outcome.UNANSWERED, status=None, error="It timed out.", answer=""),
        attempt(1, Outcome.FAILED, status=503, error=None, answer="Not now"),
        None,
    ]
    return [
        Settlement(seq=seq, state=state, at=AT, attempt=one, next_at=0.0)
        for seq, one in zip(seqs, made, strict=True)
    ]


@pytest.mark.parametrize("size", [1, 2, 2500])
@pytest.mark.parametrize(("selection", "names"), SELECTIONS)
async def test_a_list_a_replay_and_a_cancellation_select_the_same(
    engine: Engine, store: Store, selection: dict[str, Any], names: str, size: int
) -> None:
    engine.set_step(size)
    engine.shorten_searches(size)
    seqs = await four(store)
    first = seqs[0] - 1  # numbers of the selections count from the first delivery
    if "failed_since" in selection:
        selection = selection | {"failed_since": first + selection["failed_since"]}
    expected, count = names.split(), {"reg_1": len(names.split())} if names else {}
    await settle(store, *tried(seqs, DeliveryState.PENDING))
    assert sorted(await listed(store, **selection)) == expected
    cancelling = CancelQuery(instance="shop", registrations=("reg_1",), **selection)
    assert await store.count_cancellable(cancelling, 100) == count
    await settle(store, *(one for one in tried(seqs, DeliveryState.DEAD)))
    assert sorted(await listed(store, state=DeliveryState.DEAD, **selection)) == expected
    replaying = ReplayQuery(instance="shop", **selection)
    assert await store.count_replayable(replaying, {"reg_1": RULE}, 100) == count
    assert sum(await replay(store, replaying)) == len(expected)
    assert await ids_of(store) == expected  # in their original order
    cursor: str | None = await store.cancel_cursor()
    while cursor is not None:
        cursor = (await store.cancel_step(cancelling, "Off.", cursor)).cursor
    assert await ids_of(store) == []


async def test_a_look_at_payloads_is_bounded_by_their_bytes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "PAYLOAD_BYTES", 1)
    seqs = await four(store)
    await settle(store, *tried(seqs, DeliveryState.DEAD))
    query = ReplayQuery(instance="shop", person=JOHN)
    assert await store.count_replayable(query, {"reg_1": RULE}, 100) == {"reg_1": 3}
    assert await listed(store, person=JOHN, limit=1) == ["e4", "e2", "e1"]
    assert sum(await replay(store, query)) == 3


async def test_a_count_ends_at_its_limit(store: Store) -> None:
    seqs = await four(store)
    await settle(store, *tried(seqs, DeliveryState.DEAD))
    assert await store.count_replayable(ReplayQuery(instance="shop"), {"reg_1": RULE}, 3) == {"reg_1": 3}


async def test_a_list_of_several_instances(store: Store) -> None:
    await four(store)
    assert await listed(store, instance=None, among=("other",)) == ["foreign"]
    assert await listed(store, instance=None, among=("shop", "other"), text="order") == ["foreign", "e1"]
    assert await listed(store, instance=None, among=()) == []
    assert await listed(store, registrations=("reg_2",), instance=None) == ["foreign"]


def test_names_and_beginnings_of_names_select_instances() -> None:
    some = DeliverySelection(instances=("shop", "loja*"))
    assert [some.names(name) for name in ("shop", "shop2", "loja", "loja17", "Loja1")] == [
        True,
        False,
        True,
        True,
        False,
    ]
    assert DeliverySelection().names("anything")
