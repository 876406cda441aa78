"""What callers post: registrations and instances in every dialect, events, replays."""

import re
from typing import Any

import msgspec

from hookgw import Event, Invalid, Registration, TooLarge
from tests.fuzz.sentences import check_sentences
from tests.public.deliveries import parse_replay
from tests.public.delivery import Envelope
from tests.public.instances import parse_creation
from tests.public.kernel import SecretOptions, decode_strict
from tests.public.messages import (
    parse_audio_message,
    parse_chat_query,
    parse_contact_message,
    parse_deletion,
    parse_edit,
    parse_location_message,
    parse_media_message,
    parse_numbers,
    parse_presence,
    parse_reaction_message,
    parse_read_messages,
    parse_template_message,
    parse_text_message,
)
from tests.public.records import BUILT_IN_KINDS, Catalog, EventFilter
from tests.public.webhooks import (
    RegistrationChange,
    Showing,
    parse_grace,
    parse_registration,
    present_registration,
    unmask_change,
)
from tests.support.emits import parse_events

CATALOG = Catalog(BUILT_IN_KINDS)
OPTIONS = SecretOptions({"open": frozenset()})
"""Those of any other plugin are secrets."""
NOW = 1_700_000_000.0
EVENT = Event(
    id="msg_1", kind="CALL", instance="shop", data_json=b'{"key": [{"a": 1.5}], "b": "c"}', time=NOW
)
_MADE = re.compile(r"^msg_[0-9a-f]{32}$")


def _decoded(data: bytes) -> Any:
    """The JSON in a body; ``Invalid`` where it is none, as the interface has it."""
    try:
        return decode_strict(data)
    except ValueError as error:
        raise Invalid(f"The body {error}.") from None


def registration(data: bytes) -> None:
    """A ``set`` is refused with sentences, or what is stored of it can be sent back and changes nothing."""
    try:
        change, _ = parse_registration(_decoded(data), CATALOG)
        change = unmask_change(change, None, OPTIONS)
        stored = change.apply(None, instance="shop", label="default", now=NOW)
    except Invalid as error:
        check_sentences(*error.messages)
        return
    # Whatever a filter says, it says it of every event.
    EventFilter(stored.filter).unmet(EVENT)
    again, warnings = parse_registration(_shown(stored), CATALOG)
    assert not warnings
    assert _sent_back(again, stored) == stored


def _shown(stored: Registration) -> Any:
    """A registration as ``find`` shows it."""
    return msgspec.json.decode(
        msgspec.json.encode(present_registration(stored, Showing("id", CATALOG, OPTIONS)))
    )


def _sent_back(change: RegistrationChange, stored: Registration) -> Registration:
    """What is stored after a ``set`` of what was shown; that spells every kind out, which is undone here."""
    change = unmask_change(change, stored, OPTIONS)
    assert stored.events in ((), change.events)
    change = msgspec.structs.replace(change, events=stored.events)
    return change.apply(stored, instance="shop", label="default", now=NOW)


def other_bodies(data: bytes) -> None:
    """What else is posted is taken or refused with sentences."""
    for parse in (
        lambda body: parse_creation(body, CATALOG),
        parse_text_message,
        parse_media_message,
        parse_audio_message,
        parse_location_message,
        parse_contact_message,
        parse_reaction_message,
        parse_template_message,
        parse_read_messages,
        parse_presence,
        parse_edit,
        parse_deletion,
        parse_numbers,
        parse_chat_query,
        parse_grace,
        lambda body: parse_replay(body, CATALOG, now=NOW),
    ):
        try:
            parse(_decoded(data))
        except Invalid as error:
            check_sentences(*error.messages)


def events(data: bytes) -> None:
    """An event means the same alone, in a list and as a line, and its payload stays the bytes it was."""
    alone, listed = _read(data), _read(b"[%b]" % data)
    if not data.lstrip(b" \t\r\n").startswith(b"["):
        assert listed == alone or (alone is None and len(listed or ()) != 1)
        if b"\n" not in data.strip() and data.strip():
            assert _read(data, lines=True) == alone
    for event in alone or ():
        assert event.data_json in data
        _check_envelope(event)


def _read(body: bytes, *, lines: bool = False) -> list[Event] | None:
    """The events in a body, without the ids that hookgw made; ``None`` where it is refused."""
    try:
        batch = parse_events(body, "shop", CATALOG, now=NOW, lines=lines)
    except (Invalid, TooLarge) as error:
        check_sentences(*error.messages)
        return None
    return [msgspec.structs.replace(event, id=_MADE.sub("", event.id)) for event in batch.events]


def _check_envelope(event: Event) -> None:
    body = Envelope("http://a.test/", None).encode(event)
    raw = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    assert bytes(raw["data"]) == event.data_json
    assert list(raw)[:3] == ["event", "instance", "data"]
