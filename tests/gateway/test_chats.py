"""Chats and contacts, found in a history that the test writes."""

import itertools
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from hookgw import Event
from tests.public.core import LONG_WORK, SLICE, LongWork
from tests.public.messages import MOST_MESSAGE, MOST_PAGES, Chat, ChatQuery, ChatSearch, Contact
from tests.public.store import EventPage, EventQuery, LoggedEvent


class History:
    """Lists events in pages of a few, the newest first."""

    def __init__(self, *events: Event, size: int = 2, seconds: float = 0.0) -> None:
        self._events = events[::-1]
        self._size = size
        self._seconds = seconds
        self.pages = 0

    async def list_events(self, query: EventQuery) -> EventPage:
        self.pages += 1
        await trio.sleep(self._seconds)
        start = int(query.cursor or 0)
        end = start + self._size
        events = [
            LoggedEvent(event, event.time + SHIFT)
            for event in self._events[start:end]
            if event.kind in query.kinds
        ]
        return EventPage(events, str(end) if end < len(self._events) else None)


# Seconds from the time of an event until hookgw accepts it: its producer writes the local time.
SHIFT = 10_800
_times = iter(range(1_000_000))


def event(kind: str, data: Any) -> Event:
    return Event(
        id="e", kind=kind, instance="shop", data_json=msgspec.json.encode(data), time=float(next(_times))
    )


def message(chat: str, name: str | None = None, *, text: str = "hi", stamp: Any = None, **key: Any) -> Event:
    from_me = key.pop("fromMe", False)
    data = {
        "key": {"remoteJid": chat, "fromMe": from_me, "id": text, **key},
        "pushName": name,
        "message": {"conversation": text},
        "messageType": "conversation",
        "messageTimestamp": stamp,
        "source": "web",
    }
    return event("SEND_MESSAGE" if from_me else "MESSAGES_UPSERT", data)


@pytest.mark.parametrize(
    ("stamp", "at"),
    [
        (10_000, 10_000),
        ("10000", 10_000),
        ({"low": 10_000, "high": 0, "unsigned": True}, 10_000),
        (10_000.0, 10_000),
        (None, None),
        (-1, None),
        ("x", None),
        (2_000_000_000, None),  # of a wrong clock
    ],
)
async def test_the_time_is_that_of_the_message_or_else_that_of_its_arrival(
    stamp: Any, at: float | None
) -> None:
    written = message("55@c", "Ana", stamp=stamp)
    (chat,), (contact,) = await chats(written), await contacts(written)
    assert chat.updated_at == contact.updated_at == (written.time + SHIFT if at is None else at)


def everything(_: str) -> bool:
    return True


async def chats(*events: Event, **options: Any) -> list[Chat]:
    return await ChatSearch(History(*events, **options)).chats("shop", everything)  # type: ignore[arg-type]


async def contacts(*events: Event) -> list[Contact]:
    return await ChatSearch(History(*events)).contacts("shop", everything)  # type: ignore[arg-type]


async def test_the_chat_with_the_newest_message_is_first() -> None:
    first = message("55@c", "Ana", text="1")
    found = await chats(first, message("66@c", "Bia", text="2"), message("55@c", text="3", fromMe=True))
    assert [(chat.jid, chat.name, chat.last_message.id) for chat in found] == [
        ("55@c", "Ana", "3"),
        ("66@c", "Bia", "2"),
    ]
    assert bytes(found[1].last_message.message) == b'{"conversation":"2"}'
    assert found[1].last_message.key["remoteJid"] == "66@c"
    assert found[1].updated_at == first.time + 1 + SHIFT


@pytest.mark.parametrize("group", [{"chat": "1@g.us"}, {"chat": "!room:x", "participant": "@ana:x"}])
async def test_a_group_has_no_persons_name(group: dict[str, str]) -> None:
    (chat,) = await chats(message(**group, name="Ana"))
    assert (chat.is_group, chat.name) == (True, None)


@pytest.mark.parametrize(
    "key",
    [
        {"chat": "@ana:x", "participant": "@ana:x"},
        {"participant": "55@s.whatsapp.net"},
        {"participant": "55:12@s.whatsapp.net"},
        {"participant": "55@c.us"},
        {"participant": "7@lid", "remoteJidAlt": "7@lid"},
        {"participant": "", "remoteJidAlt": 5},
        {"participant": "55@s.whatsapp.net", "fromMe": False},
        {"participant": "7@lid", "participantAlt": "55@s.whatsapp.net"},
        {"participant": "99@s.whatsapp.net"},  # the own account, as some gateways have it
    ],
)
async def test_a_person_who_is_named_twice_is_no_group(key: dict[str, Any]) -> None:
    person = key.get("chat", "55@s.whatsapp.net")
    written = message(**{**key, "chat": person}, name="Ana")
    (chat,) = await chats(written)
    assert (chat.is_group, chat.name) == (False, "Ana")
    assert "remoteJidAlt" not in chat.last_message.key
    (contact,) = await contacts(written)
    assert (contact.jid, contact.name, contact.is_group) == (person, "Ana", False)


async def test_status_posts_are_no_contact() -> None:
    """As with Evolution API: a message to all contacts would be posted as a status, too."""
    posted = message("status@broadcast", "Ana", participant="55@s.whatsapp.net")
    assert [(one.jid, one.name) for one in await contacts(posted)] == [("55@s.whatsapp.net", "Ana")]
    assert [one.jid for one in await chats(posted)] == ["status@broadcast"]


SPELLINGS: list[dict[str, Any]] = [
    {"chat": "55@s.whatsapp.net"},
    {"chat": "55:90@s.whatsapp.net"},
    {"chat": "55@c.us"},
    {"chat": "7@lid", "remoteJidAlt": "55@s.whatsapp.net"},
    {"chat": "55@s.whatsapp.net", "remoteJidAlt": "7:2@lid"},
    {"chat": "7@lid", "senderPn": "55@s.whatsapp.net"},
    {"chat": "55@s.whatsapp.net", "senderLid": "7@lid"},
    {"chat": "55@s.whatsapp.net", "remoteJidLid": "7@lid"},
]


@pytest.mark.parametrize(
    "other", [*SPELLINGS, {"chat": "7:4@lid"}, {"chat": "7@lid", "participant": "7@lid"}]
)
@pytest.mark.parametrize("is_newer", [False, True])
async def test_a_person_is_one_chat_under_the_number(other: dict[str, Any], is_newer: bool) -> None:
    """Also if some of the messages have no number."""
    written = [message(**one, text=str(index)) for index, one in enumerate(SPELLINGS)]
    written.insert(len(written) * is_newer, message(**other, name="Ana", text="other"))
    (chat,) = await chats(*written)
    assert (chat.jid, chat.name, chat.is_group) == ("55@s.whatsapp.net", "Ana", False)
    assert chat.last_message.id == ("other" if is_newer else str(len(SPELLINGS) - 1))
    assert chat.last_message.key.keys() <= {"remoteJid", "id", "fromMe", "participant"}
    assert chat.updated_at == written[-1].time + SHIFT
    (contact,) = await contacts(*written)
    assert (contact.jid, contact.name, contact.is_group) == ("55@s.whatsapp.net", "Ana", False)


async def test_people_without_a_number_are_apart() -> None:
    found = await chats(message("7@lid"), message("8@lid"), message("7:1@lid"))
    assert [chat.jid for chat in found] == ["7@lid", "8@lid"]


@pytest.mark.parametrize("wanted", ["55", "55@s.whatsapp.net", "55:3@c.us", "7", "7@lid"])
@pytest.mark.parametrize(
    ("name", "in_group"), [("remoteJidAlt", "participantAlt"), ("senderPn", "participantPn")]
)
async def test_a_person_is_found_by_every_name(wanted: str, name: str, in_group: str) -> None:
    history = History(
        message("66@s.whatsapp.net"),
        message("7@lid", **{name: "55@s.whatsapp.net"}),
        message("8@lid"),
        message("7@lid", text="newest"),
        message("1@g.us", "Ana", participant="7@lid", **{in_group: "55@s.whatsapp.net"}),
    )
    search = ChatSearch(history)  # type: ignore[arg-type]
    query = ChatQuery(chat=wanted)
    (chat,) = await search.chats("shop", query.wants)
    assert (chat.jid, chat.last_message.id) == ("55@s.whatsapp.net", "newest")
    (contact,) = await search.contacts("shop", query.wants)
    assert (contact.jid, contact.name) == ("55@s.whatsapp.net", "Ana")


async def test_a_large_message_is_left_out_of_the_list() -> None:
    (chat,) = await chats(message("55@c", text="x" * MOST_MESSAGE))
    assert bytes(chat.last_message.message) == b"{}"


@pytest.mark.parametrize(
    "data", [None, 5, [], {}, {"key": 5}, {"key": {}}, {"key": {"remoteJid": ""}}, {"key": {"remoteJid": 5}}]
)
async def test_what_is_no_message_is_passed_over(data: Any) -> None:
    assert await chats(event("MESSAGES_UPSERT", data)) == []
    assert await contacts(event("MESSAGES_UPSERT", data), event("CONTACTS_SET", data)) == []


async def test_odd_fields_are_unknown_ones() -> None:
    odd = {"key": {"remoteJid": "5"}, "pushName": 5, "messageTimestamp": "soon", "messageType": []}
    (chat,) = await chats(event("MESSAGES_UPSERT", odd))
    last = chat.last_message
    assert (last.push_name, last.message_timestamp, last.message_type, bytes(last.message)) == (
        None,
        None,
        None,
        b"{}",
    )


async def test_contacts_come_from_messages_and_from_their_own_events() -> None:
    found = await contacts(
        event("CONTACTS_UPSERT", [{"remoteJid": "55@c", "pushName": "Old", "profilePicUrl": "https://p"}]),
        event("CONTACTS_UPDATE", {"id": "77@c", "name": "Caio"}),
        message("1@g.us", "Bia", participant="66@c"),
        message("55@c", "Ana"),
        message("88@c", fromMe=True),
    )
    assert [(one.jid, one.name, one.picture_url, one.is_group) for one in found] == [
        ("88@c", None, None, False),
        ("55@c", "Ana", "https://p", False),
        ("1@g.us", None, None, True),
        ("66@c", "Bia", None, False),
        ("77@c", "Caio", None, False),
    ]


async def test_only_the_wanted_ones() -> None:
    search = ChatSearch(History(message("55@c"), message("66@c")))  # type: ignore[arg-type]
    assert [chat.jid for chat in await search.chats("shop", lambda chat: chat == "55@c")] == ["55@c"]
    assert [one.jid for one in await search.contacts("shop", lambda chat: chat == "66@c")] == ["66@c"]


async def test_a_search_ends_after_a_second(autojump_clock: MockClock) -> None:
    found = await chats(*(message(f"{n}@c") for n in range(100)), seconds=0.25)
    assert len(found) == 8


async def test_a_search_reads_so_many_pages() -> None:
    found = await chats(*(message(f"{n}@c") for n in range(200)), size=1)
    assert len(found) == MOST_PAGES


@pytest.mark.parametrize("has_ids", [True, False])
async def test_other_tasks_run_while_an_event_of_many_contacts_is_read(
    nursery: trio.Nursery, has_ids: bool
) -> None:
    ticks = itertools.count()
    LONG_WORK.set(LongWork(lambda: next(ticks) * SLICE))
    rounds = 0

    async def count_rounds() -> None:
        nonlocal rounds
        while True:
            await trio.lowlevel.checkpoint()
            rounds += 1

    nursery.start_soon(count_rounds)
    entries = [{"id": f"{n}@c"} if has_ids else {} for n in range(50)]
    assert len(await contacts(event("CONTACTS_SET", entries))) == (50 if has_ids else 0)
    assert rounds >= 50
    nursery.cancel_scope.cancel()
