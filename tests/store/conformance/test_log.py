"""The log of events: every accepted event of an instance, in order, whoever wanted it."""

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from hookgw.store import log, searches
from hookgw.store.postgresql import log as postgresql_log
from hookgw.store.sqlite import log as sqlite_log
from tests.public.kernel import Conflict, Invalid
from tests.public.records import DeliverySelection, Event
from tests.public.store import Append, EventQuery, Store
from tests.store.conformance.engines import Engine
from tests.store.support import dead, delivered, event, seqs_of, settle, to
from tests.support.stores import index_log

KEEP = 2**40
ANA = "5511988887777@s.whatsapp.net"
BOB = "5511988886666@s.whatsapp.net"


def unwanted(*ids: str, **more: Any) -> list[Append]:
    return [Append(event(name, **more), ()) for name in ids]


def message(chat: str, text: str = "hi", message_id: str = "M1", **key: Any) -> str:
    inner = ", ".join(f'"{name}": {value}' for name, value in key.items())
    return (
        f'{{"key": {{"remoteJid": "{chat}", "id": "{message_id}"{", " if inner else ""}{inner}}}, '
        f'"message": {{"conversation": "{text}"}}}}'
    )


async def log_of(store: Store, instance: str | None = "shop", **query: Any) -> list[str]:
    """Return the ids of all events of a log, page by page."""
    return [one.id for one in await events_of(store, instance, **query)]


async def events_of(store: Store, instance: str | None = "shop", **query: Any) -> list[Event]:
    found: list[Event] = []
    cursor: str | None = None
    for _ in range(1_000):
        page = await store.list_events(EventQuery(instance=instance, cursor=cursor, **query))
        found += [one.event for one in page.events]
        if (cursor := page.cursor) is None:
            return found
    raise AssertionError("The list has no end.")


async def index(store: Store) -> None:
    """Write the entries of all events, as happens behind the commits."""
    await index_log(store)


ORDERS = pytest.mark.parametrize("is_oldest_first", [True, False])


@pytest.fixture(params=["tail", "entries", "both"])
def state(request: pytest.FixtureRequest) -> str:
    """Whether the events have entries in the index, or are too new."""
    return str(request.param)


async def append(store: Store, state: str, appends: Sequence[Append]) -> None:
    middle = {"tail": 0, "entries": len(appends), "both": len(appends) // 2}[state]
    if middle:
        await store.append(appends[:middle])
        await index(store)
    if middle < len(appends):
        await store.append(appends[middle:])


@ORDERS
@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_every_event_is_in_the_log_once_and_in_order(
    store: Store, state: str, is_oldest_first: bool, limit: int
) -> None:
    appends = [
        one
        for number in range(4)
        for one in (*to(f"w{number}"), *unwanted(f"u{number}"), *unwanted(f"x{number}", instance="other"))
    ]
    await append(store, state, appends)
    wanted = [one.event.id for one in appends if one.event.instance == "shop"]
    found = await log_of(store, is_oldest_first=is_oldest_first, limit=limit)
    assert found == (wanted if is_oldest_first else wanted[::-1])
    assert len(await log_of(store, "other")) == 4
    assert await log_of(store, "nobody") == []


@ORDERS
async def test_short_searches_go_on_where_they_ended(
    engine: Engine, store: Store, state: str, is_oldest_first: bool
) -> None:
    appends = [
        one for number in range(6) for one in (*unwanted(f"o{number}", instance="other"), *to(f"e{number}"))
    ]
    await append(store, state, appends)
    engine.shorten_searches(1)
    found = await log_of(store, is_oldest_first=is_oldest_first, limit=2)
    assert found == [f"e{number}" for number in (range(6) if is_oldest_first else range(5, -1, -1))]


@ORDERS
@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_the_events_of_several_instances_in_their_common_order(
    store: Store, state: str, is_oldest_first: bool, limit: int
) -> None:
    appends = [
        one
        for number in range(3)
        for one in (
            *unwanted(f"a{number}"),
            *unwanted(f"b{number}", instance="other"),
            *to(f"c{number}"),
            *unwanted(f"d{number}", instance="third"),
            *unwanted(f"e{number}", instance="gone ins_1"),
        )
    ]
    await append(store, state, appends)
    in_order = appends if is_oldest_first else appends[::-1]
    for among, names in (
        (None, ("shop", "other", "third")),
        (("shop", "third"), ("shop", "third")),
        (("other", "nobody"), ("other",)),
        (("nobody",), ()),
        ((), ()),
    ):
        found = await events_of(store, None, among=among, is_oldest_first=is_oldest_first, limit=limit)
        wanted = [(one.event.instance, one.event.id) for one in in_order if one.event.instance in names]
        assert [(one.instance, one.id) for one in found] == wanted


@ORDERS
async def test_searches_of_several_instances_go_on_where_they_ended(
    engine: Engine, store: Store, state: str, is_oldest_first: bool
) -> None:
    chats = [ANA, BOB, ANA, BOB, ANA, BOB]
    await append(
        store,
        state,
        [
            Append(event(f"e{number}", instance=f"i{number % 3}", data=message(chat)), ())
            for number, chat in enumerate(chats)
        ],
    )
    engine.shorten_searches(1)
    for among, ids in ((None, ["e1", "e3", "e5"]), (("i0", "i1"), ["e1", "e3"])):
        found = await log_of(store, None, among=among, chat=BOB, is_oldest_first=is_oldest_first, limit=1)
        assert found == (ids if is_oldest_first else ids[::-1])


@ORDERS
async def test_a_time_of_several_instances(store: Store, is_oldest_first: bool) -> None:
    ids = []
    times: list[float] = []
    for number in range(4):  # the last one has no entry
        instance = f"i{number % 2}"
        await store.append(unwanted(f"e{number}", instance=instance))
        if number < 3:
            await index(store)
        page = await store.list_events(EventQuery(instance=instance, limit=1))
        times.append(page.events[0].accepted_at)
        ids.append(f"e{number}")
    for since in range(4):
        for until in range(since, 4):
            found = await log_of(
                store, None, since=times[since], until=times[until], is_oldest_first=is_oldest_first
            )
            wanted = [one for one, at in zip(ids, times, strict=True) if times[since] <= at < times[until]]
            assert found == (wanted if is_oldest_first else wanted[::-1])


async def test_the_logs_of_several_instances_begin_where_all_have_begun(store: Store) -> None:
    await store.append([*unwanted("a1"), *unwanted("b1", instance="other")])
    await store.enforce_retention(before=0, limit=KEEP, log_limit=0)
    begins = {
        name: (await store.list_events(EventQuery(instance=name))).begins_at
        for name in ("shop", "other", "x")
    }
    for among in (("shop", "x"), ("other", "x"), ("x",)):
        page = await store.list_events(EventQuery(instance=None, among=among))
        assert page.begins_at == max(begins[name] for name in among)
    assert (await store.list_events(EventQuery(instance=None))).begins_at == max(begins.values())


async def test_an_event_is_whole(store: Store, state: str) -> None:
    given = Event(
        id="e1",
        kind="CALL",
        instance="shop",
        data_json='{"é": "ü\\u0000", "n": 1.50}'.encode(),
        time=17.25,
        sender=ANA,
        server_url="https://x",
    )
    await append(store, state, [Append(given, ()), *to("e2")])
    assert (await events_of(store))[1] == given


@ORDERS
async def test_a_cursor_holds_while_events_are_added_and_indexed(store: Store, is_oldest_first: bool) -> None:
    await store.append(unwanted("e0", "e1", "e2", "e3"))
    query = EventQuery(instance="shop", limit=2, is_oldest_first=is_oldest_first)
    page = await store.list_events(query)
    await store.append(unwanted("e4"))
    await index(store)
    await store.append(unwanted("e5"))
    found = [one.event.id for one in page.events]
    found += await log_of_rest(store, query, page.cursor)
    assert found == (["e0", "e1", "e2", "e3", "e4", "e5"] if is_oldest_first else ["e3", "e2", "e1", "e0"])


async def log_of_rest(store: Store, query: EventQuery, cursor: str | None) -> list[str]:
    found: list[str] = []
    while cursor is not None:
        page = await store.list_events(
            EventQuery(instance=query.instance, limit=2, is_oldest_first=query.is_oldest_first, cursor=cursor)
        )
        found += [one.event.id for one in page.events]
        cursor = page.cursor
    return found


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ({"kinds": ("CALL",)}, ["call"]),
        ({"kinds": ("CALL", "MESSAGES_UPSERT"), "chat": ANA}, ["ana", "ana2", "device"]),
        ({"chat": "5511988887777:7@s.whatsapp.net"}, ["ana", "ana2", "device"]),
        ({"chat": "5511988887777"}, ["ana", "ana2", "device"]),
        ({"chat": "group@g.us"}, ["group", "several"]),
        ({"chat": BOB}, ["several"]),
        ({"sender": BOB}, ["group", "several"]),
        ({"sender": ANA}, ["ana", "device"]),
        ({"sender": "me@x"}, ["ana2"]),
        ({"message": "M2"}, ["ana2", "update"]),
        ({"text": "olá"}, ["ana", "escaped"]),
        ({"text": 'a "quoted"'}, ["call"]),
        ({"text": "hi", "chat": "group@g.us"}, ["group", "several"]),
        ({"text": "nowhere"}, []),
        ({"chat": "nobody@x"}, []),
        ({"kinds": ("NO_SUCH",)}, []),
    ],
)
async def test_what_a_search_finds(store: Store, state: str, query: dict[str, Any], ids: list[str]) -> None:
    def of(name: str, data: str, kind: str = "MESSAGES_UPSERT") -> Append:
        made = Event(id=name, kind=kind, instance="shop", data_json=data.encode(), time=17.0, sender="me@x")
        return Append(made, ())

    await append(
        store,
        state,
        [
            of("ana", message(ANA, "olá")),
            of("ana2", message(ANA, "later", "M2", fromMe="true")),
            of("device", message("5511988887777:90@s.whatsapp.net")),
            of("group", message("group@g.us", participant=f'"{BOB}"')),
            of("several", f"[{message('group@g.us')}, {message(BOB)}]"),
            of("escaped", message("x@y", "ol\\u00e1")),
            of("update", '{"keyId": "M2", "remoteJid": "z@y", "fromMe": false}', "MESSAGES_UPDATE"),
            of("call", '{"what": "a \\"quoted\\" text"}', "CALL"),
        ],
    )
    assert await log_of(store, is_oldest_first=True, **query) == ids
    assert await log_of(store, limit=1, **query) == ids[::-1]


async def test_a_hash_that_two_chats_share(store: Store, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Hashes are remembered: no other test has these chats.
    monkeypatch.setattr(log, "zlib", SimpleNamespace(crc32=lambda _: 0))
    await append(store, state, [Append(event(chat, data=message(f"{chat}@same")), ()) for chat in "ab"])
    assert await log_of(store, chat="b@same") == ["b"]


async def test_a_chat_that_is_rare_is_found_behind_many_others(store: Store, state: str) -> None:
    """A page of one event, too: without entries, each payload in between is looked at."""
    others = [one for number in range(150) for one in unwanted(f"b{number}", data=message(BOB))]
    await append(store, state, [*unwanted("a", data=message(ANA)), *others])
    assert await log_of(store, chat=ANA, limit=1) == ["a"]


async def test_several_names_of_one_chat(store: Store, state: str) -> None:
    chats = {"a": ANA, "b": BOB, "c": "77@lid", "d": "88@lid"}
    await append(store, state, [one for name in chats for one in unwanted(name, data=message(chats[name]))])
    assert await log_of(store, chat=ANA, chat_names=("77@lid",)) == ["c", "a"]


async def test_since_and_until_are_times_of_acceptance(store: Store, state: str) -> None:
    await append(store, state, unwanted("e1"))
    at = (await store.list_events(EventQuery(instance="shop"))).events[0].accepted_at
    assert await log_of(store, since=at, until=at + 1) == ["e1"]
    assert await log_of(store, until=at) == []
    assert await log_of(store, since=at + 1) == []


@pytest.mark.parametrize("cursor", ["", "x", "0.1", "0123456789ab.1", "0123456789ab.1.x", "dlv_1"])
async def test_a_bad_cursor(store: Store, cursor: str) -> None:
    with pytest.raises(Invalid, match="cursor"):
        await store.list_events(EventQuery(instance="shop", cursor=cursor))


async def test_a_cursor_of_another_log(store: Store) -> None:
    with pytest.raises(Conflict, match="backup"):
        await store.list_events(EventQuery(instance="shop", cursor="0123456789ab.1.1"))


async def test_a_cursor_outlasts_a_restart(engine: Engine) -> None:
    async with engine.open() as store:
        await store.append(unwanted("e1", "e2"))
        page = await store.list_events(EventQuery(instance="shop", limit=1))
    async with engine.open() as store:
        query = EventQuery(instance="shop", cursor=page.cursor)
        assert [one.event.id for one in (await store.list_events(query)).events] == ["e1"]


async def test_an_index_that_is_behind_says_so(
    store: Store, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await trio.testing.wait_all_tasks_blocked()
    await index(store)  # behind the store's own look at its start, which would write the entries
    for module in (sqlite_log, postgresql_log):
        monkeypatch.setattr(module, "TAIL_ROWS", 2)
    await append(store, state, unwanted(*(f"e{number}" for number in range(6))))
    page = await store.list_events(EventQuery(instance="shop"))
    assert (page.reached is None) == (state == "entries")
    assert len(page.events) >= 2
    await index(store)
    page = await store.list_events(EventQuery(instance="shop"))
    assert page.reached is None
    assert len(page.events) == 6


async def test_a_page_of_events_is_limited_in_bytes(store: Store, state: str) -> None:
    large, huge = '"' + "x" * 100_000 + '"', '"' + "x" * 2**20 + '"'
    appends = [
        *unwanted(*(f"l{number}" for number in range(8)), data=large),
        *to("huge", data=huge),
        *to(*(f"s{number}" for number in range(2_500))),
    ]
    await append(store, state, appends)
    page = await store.list_events(EventQuery(instance="shop", limit=1_000))
    assert len(page.events) == 1_000
    ids = [one.event.id for one in appends]
    assert await log_of(store, limit=1_000) == ids[::-1]
    page = await store.list_events(EventQuery(instance="shop", limit=1_000, is_oldest_first=True))
    assert [one.event.id for one in page.events] == ["l0", "l1"]
    assert await log_of(store, limit=1_000, is_oldest_first=True) == ids


async def test_a_list_back_to_the_end_of_another_page(store: Store, state: str) -> None:
    ids = [f"e{number}" for number in range(6)]
    await append(store, state, to(*ids))
    for limit in range(1, 6):
        page = await store.list_events(EventQuery(instance="shop", limit=limit))
        assert page.cursor is not None
        assert await log_of(store, back_to=page.cursor, limit=2) == ids[::-1][:limit]


async def test_the_event_with_its_deliveries(store: Store) -> None:
    await store.append([*to("e1"), *to("e1", instance="other"), *unwanted("e2")])
    await settle(store, delivered(1))
    found = await store.find_event("shop", "e1")
    assert found is not None
    assert (found.event.id, [one.id for one in found.deliveries]) == ("e1", ["dlv_1"])
    found = await store.find_event("shop", "e2")
    assert found is not None
    assert found.deliveries == []
    assert await store.find_event("shop", "e3") is None


async def test_deliveries_to_registrations_of_the_configuration_are_hidden(store: Store) -> None:
    targets = (("reg_1", "reg_1:0"), ("global_0123", "global_0123:0"))
    await store.append([Append(event("e1"), targets)])
    shown = await store.find_event("shop", "e1", without_global=True)
    whole = await store.find_event("shop", "e1")
    assert shown is not None
    assert whole is not None
    assert (len(shown.deliveries), len(whole.deliveries)) == (1, 2)


async def begins_at(store: Store, instance: str = "shop") -> float:
    return (await store.list_events(EventQuery(instance=instance))).begins_at


async def accepted(store: Store, instance: str = "shop") -> list[float]:
    page = await store.list_events(EventQuery(instance=instance, is_oldest_first=True))
    return [one.accepted_at for one in page.events]


async def test_a_new_log_begins_before_its_first_event(store: Store) -> None:
    await store.append(unwanted("e1"))
    assert await begins_at(store) <= (await accepted(store))[0]


async def test_the_log_begins_behind_what_was_pruned(store: Store, state: str) -> None:
    await append(store, state, [*unwanted("e1"), *to("e2")])
    times = await accepted(store)
    await store.append(unwanted("e3"))
    first = await begins_at(store)
    await store.enforce_retention(before=times[0] - 1, limit=KEEP)
    assert await begins_at(store) == first
    await settle(store, *map(delivered, await seqs_of(store)))
    await store.enforce_retention(before=9e9, limit=KEEP)
    assert await log_of(store) == []
    assert await begins_at(store) > times[-1]
    assert await begins_at(store, "other") == first


@pytest.mark.parametrize("step", [1, 200])
async def test_the_oldest_unwanted_events_go_first(
    store: Store, state: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "PRUNE_STEP", step)
    data = '"' + 500 * "x" + '"'
    await append(
        store,
        state,
        [
            *unwanted(*(f"e{number}" for number in range(9)), data=data),
            *to("wanted", data=data),
            *unwanted("small", instance="other", data=data),
        ],
    )
    each = log.stored_bytes(len(data))
    assert await store.enforce_retention(before=0, limit=KEEP, log_limit=4 * each) == 6
    assert await log_of(store, is_oldest_first=True) == ["e6", "e7", "e8", "wanted"]
    assert await log_of(store, "other") == ["small"]
    assert await store.enforce_retention(before=0, limit=KEEP, log_limit=4 * each) == 0
    assert await store.enforce_retention(before=0, limit=KEEP, log_limit=0) == 4
    assert await log_of(store) == ["wanted"]


async def test_a_flood_is_noticed(store: Store) -> None:
    await store.enforce_retention(before=0, limit=KEEP, log_limit=4_000)
    large = '"' + 600 * "x" + '"'
    with trio.fail_after(20):
        for name in ("e1", "e3"):
            await store.append(to(f"{name}-wanted", data=large))
            await store.append(unwanted(name, data=large))
            with trio.move_on_after(0.01) as waiting:
                await store.wait_log_growth()
            assert waiting.cancelled_caught
            await store.append(unwanted(f"{name}-2", data=large))
            await store.wait_log_growth()


async def test_ids_of_pruned_events_are_known(store: Store) -> None:
    await store.append(unwanted("e1"))
    await store.enforce_retention(before=0, limit=KEEP, log_limit=0, ids_before=0)
    assert await store.append(unwanted("e1")) == [False]


async def test_without_unwanted_payloads_the_log_has_what_somebody_wanted(engine: Engine) -> None:
    async with engine.open(keep_unwanted=False) as store:
        await store.append([*unwanted("e1"), *to("e2")])
        await index(store)
        await store.append([*unwanted("e3"), *to("e4")])
        assert await log_of(store) == ["e4", "e2"]
        assert await store.find_event("shop", "e1") is None
    async with engine.open() as store:
        # All of it from now on.
        assert await begins_at(store) > (await accepted(store))[-1]
        begun = await begins_at(store)
        await store.append(unwanted("e5"))
        assert await log_of(store) == ["e5", "e4", "e2"]
    async with engine.open() as store:
        assert await begins_at(store) == begun


async def test_an_erased_event_leaves_no_gap(store: Store, state: str) -> None:
    await append(store, state, [*unwanted("e1", "e2", data=message(ANA)), *to("e3", data=message(BOB))])
    begun = await begins_at(store)
    cursor: str | None = await store.cancel_cursor()
    await store.append(unwanted("later", data=message(ANA)))
    found: list[int] = []
    while cursor is not None:
        page = await store.find_concerned("shop", ANA, cursor)
        found += page.events
        cursor = page.cursor
    erased = await store.erase(found, ANA)
    assert (erased.events, erased.deliveries) == (2, 0)
    assert await log_of(store, is_oldest_first=True) == ["e3", "later"]
    assert await log_of(store, chat=ANA) == ["later"]
    assert await begins_at(store) == begun
    await index(store)
    assert await log_of(store, chat=ANA) == ["later"]


@pytest.mark.parametrize("count", [1, 5])
async def test_the_index_follows_the_commits(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """After a while, or at once after many events."""
    monkeypatch.setattr(log, "INDEX_EVERY", 0.01 if count == 1 else 60)
    monkeypatch.setattr(log, "INDEX_ROWS", 5)
    for module in (sqlite_log, postgresql_log):
        monkeypatch.setattr(module, "TAIL_ROWS", 1)
    async with engine.open() as store:
        for part in range(2):
            await store.append(unwanted(*(f"e{part}-{number}" for number in range(count))))
            with trio.fail_after(20):
                while (await store.list_events(EventQuery(instance="shop"))).reached is not None:  # noqa: ASYNC110
                    await trio.sleep(0.01)


async def test_an_index_that_a_former_process_left_behind_is_written_at_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that ends before its index is due, again and again, leaves more than a search looks at."""
    for module in (sqlite_log, postgresql_log):
        monkeypatch.setattr(module, "TAIL_ROWS", 2)
    async with engine.open() as store:
        await store.append(unwanted("e1", "e2", "e3"))
    async with engine.open() as store:
        with trio.fail_after(log.INDEX_EVERY / 2):
            while (await store.list_events(EventQuery(instance="shop"))).reached is not None:  # noqa: ASYNC110
                await trio.sleep(0.01)


async def test_a_search_through_the_log_lets_others_take_turns(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("FIRST_ROWS", 2), ("PART_SECONDS", 0.0), ("LEAST_ROWS", 2), ("LIST_SECONDS", 60)):
        monkeypatch.setattr(searches, name, value)
    await store.append(unwanted(*(f"e{number}" for number in range(300))))
    await store.append(unwanted("theirs", instance="other"))
    await index(store)
    ended: list[str] = []

    async def search(instance: str, **query: Any) -> None:
        await store.list_events(EventQuery(instance=instance, limit=1, **query))
        ended.append(instance)

    async with trio.open_nursery() as nursery:
        for _ in range(4):  # more than there are connections
            nursery.start_soon(partial(search, "shop", chat="nobody@x"))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(search, "other")
    assert ended == ["other", *["shop"] * 4]


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ({"delivery": DeliverySelection(state="dead")}, ["dead", "both"]),
        ({"delivery": DeliverySelection(state="delivered")}, ["delivered", "both"]),
        ({"delivery": DeliverySelection(status=(200, 299))}, ["delivered", "both"]),
        ({"delivery": DeliverySelection(error="gone")}, ["dead", "both"]),
        ({"delivery": DeliverySelection(failed_since=3)}, ["both"]),
        ({"delivery": DeliverySelection(failed_since=9)}, []),
        ({"registrations": ("reg_2",)}, ["both"]),
        ({"registrations": ("reg_2",), "delivery": DeliverySelection(state="dead")}, []),
        ({"registrations": ("reg_1",), "kinds": ("NO_SUCH",)}, []),
        ({"registrations": ()}, []),
        ({"person": ANA}, ["unwanted", "both"]),
        ({"person": ANA, "registrations": ("reg_1",)}, ["both"]),
        ({"person": ANA, "text": "nowhere"}, []),
    ],
)
async def test_events_by_their_deliveries_and_persons(
    store: Store, state: str, query: dict[str, Any], ids: list[str]
) -> None:
    both = Append(event("both", data=message(ANA)), (("reg_1", "reg_1:0"), ("reg_2", "reg_2:0")))
    # A part of the person's number is not the person.
    other = to("delivered", data=message("x@y", f"1{ANA}"))
    await append(store, state, [*unwanted("unwanted", data=message(ANA)), *to("dead"), *other, both])
    dead_one, sent, refused = await seqs_of(store, "reg_1:0")
    (second,) = await seqs_of(store, "reg_2:0")
    await settle(store, dead(dead_one, reason="gone"), delivered(sent), dead(refused, reason="gone"))
    await settle(store, delivered(second))
    for instance, more in (("shop", {}), (None, {}), (None, {"among": ("shop", "x")})):
        assert await log_of(store, instance, is_oldest_first=True, **query, **more) == ids
        assert await log_of(store, instance, limit=1, **query, **more) == ids[::-1]
