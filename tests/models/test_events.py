"""Events, their kinds, and the catalog that finds a kind by any spelling."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw import Event, EventKind, Invalid
from tests.public.records import BUILT_IN_KINDS, Catalog, new_event_id, path_segment

UPSERT = EventKind(name="MESSAGES_UPSERT", meaning="A message arrived.")
GROUP = EventKind(
    name="GROUPS_UPDATE", meaning="A group changed.", aliases=("GROUP_UPDATE",), plugin="gateway_kinds"
)
TYPEBOT = EventKind(
    name="TYPEBOT_CHANGE_STATUS", meaning="A bot changed its state.", dotted="typebot.change-status"
)


def event(data: bytes = b'{"b": 1, "a": 9007199254740993}') -> Event:
    return Event(id="msg_1", kind="MESSAGES_UPSERT", instance="loja1", data_json=data, time=1_700_000_000.5)


class TestEvent:
    def test_the_payload_is_decoded_when_it_is_asked_for_and_once(self) -> None:
        one = event()
        assert list(one.data.items()) == [("b", 1), ("a", 2**53 + 1)]
        assert one.data is one.data

    def test_its_time_is_written_as_the_wire_has_it(self) -> None:
        assert event().date_time == "2023-11-14T22:13:20.500Z"

    def test_it_cannot_be_changed(self) -> None:
        with pytest.raises(AttributeError):
            event().kind = "CALL"  # type: ignore[misc]

    def test_a_copy_with_another_payload_keeps_the_rest(self) -> None:
        one = event()
        assert one.data
        other = one.replace(data={"z": 2**53 + 1, "a": "é"})
        assert other.data_json == '{"z":9007199254740993,"a":"é"}'.encode()
        assert other.data == {"z": 2**53 + 1, "a": "é"}
        assert (other.id, other.kind, other.instance, other.time) == (
            one.id,
            one.kind,
            one.instance,
            one.time,
        )

    @pytest.mark.parametrize("data", [None, [], "", 0, False])
    def test_any_json_value_can_be_a_payload(self, data: Any) -> None:
        assert event().replace(data=data).data == data

    def test_a_copy_of_another_kind_keeps_the_payload_byte_for_byte(self) -> None:
        one = event(b'{ "a" : 1.0 }')
        other = one.replace(kind="CALL")
        assert (other.kind, other.data_json) == ("CALL", one.data_json)

    def test_payloads_must_be_json(self) -> None:
        with pytest.raises(TypeError):
            event().replace(data=object())

    def test_new_ids_are_different_and_fit_the_rule(self) -> None:
        ids = [new_event_id(1.0) for _ in range(100)]
        assert len(set(ids)) == 100
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,255}", one) for one in ids)

    def test_new_ids_grow_with_time(self) -> None:
        assert new_event_id(1_700_000_000.0) < new_event_id(1_700_000_000.002)

    def test_it_survives_being_written_as_json(self) -> None:
        one = event()
        assert one.data
        assert msgspec.json.decode(msgspec.json.encode(one), type=Event) == one


class TestEventKind:
    @pytest.mark.parametrize(
        ("name", "dotted", "segment"),
        [
            ("MESSAGES_UPSERT", "messages.upsert", "messages-upsert"),
            ("SEND_MESSAGE_UPDATE", "send.message-update", "send-message-update"),
            ("CALL", "call", "call"),
        ],
    )
    def test_the_other_spellings_follow_from_the_name(self, name: str, dotted: str, segment: str) -> None:
        kind = EventKind(name=name, meaning="X.")
        assert (kind.dotted_name, path_segment(name)) == (dotted, segment)

    def test_a_spelling_of_its_own_is_kept(self) -> None:
        kind = EventKind(name="GROUP_PARTICIPANTS_UPDATE", meaning="X.", dotted="group-participants.update")
        assert kind.dotted_name == "group-participants.update"

    def test_the_schema_is_not_shared(self) -> None:
        assert UPSERT.schema is not GROUP.schema


class TestCatalog:
    @pytest.mark.parametrize(
        ("spelling", "kind"),
        [
            ("MESSAGES_UPSERT", UPSERT),
            ("messages.upsert", UPSERT),
            ("messages-upsert", UPSERT),
            ("Messages_Upsert", UPSERT),
            ("GROUP_UPDATE", GROUP),
            ("group.update", GROUP),
            ("groups.update", GROUP),
            ("typebot.change-status", TYPEBOT),
        ],
    )
    def test_a_kind_is_found_by_any_spelling(self, spelling: str, kind: EventKind) -> None:
        catalog = Catalog([UPSERT, GROUP, TYPEBOT])
        assert catalog.get(spelling) is kind
        assert catalog.resolve(spelling, "event") is kind

    def test_it_holds_its_kinds_in_order_and_by_name_alone(self) -> None:
        catalog = Catalog([TYPEBOT, UPSERT])
        assert list(catalog) == [TYPEBOT, UPSERT]
        assert len(catalog) == 2
        assert "MESSAGES_UPSERT" in catalog
        assert "messages.upsert" not in catalog

    @pytest.mark.parametrize(
        "name", ["", "_", "messages", "MESSAGES.UPSERT", "MESSAGES UPSERT", "É", "A-B", "٣"]
    )
    def test_a_malformed_name_is_refused(self, name: str) -> None:
        with pytest.raises(ValueError, match="is not an event kind: use capital letters"):
            Catalog([EventKind(name=name, meaning="X.")])

    @pytest.mark.parametrize(
        ("other", "taken_by"),
        [
            (EventKind(name="GROUPS_UPDATE", meaning="X."), "GROUPS_UPDATE of gateway_kinds"),
            (EventKind(name="GROUP_UPDATE", meaning="X."), "GROUPS_UPDATE of gateway_kinds"),
            (EventKind(name="X", meaning="X.", aliases=("groups.update",)), "GROUPS_UPDATE of gateway_kinds"),
            (EventKind(name="X", meaning="X.", dotted="messages.upsert"), "MESSAGES_UPSERT of hookgw"),
        ],
    )
    def test_a_taken_spelling_is_refused_and_names_both(self, other: EventKind, taken_by: str) -> None:
        catalog = Catalog([UPSERT, GROUP])
        with pytest.raises(ValueError, match=f"^{other.name} is already defined, as {taken_by}$"):
            catalog.add(other)
        assert list(catalog) == [UPSERT, GROUP]
        assert catalog.get("X") is None

    @pytest.mark.parametrize(
        ("spelling", "near"),
        [
            ("MESSAGE_UPSERT", "MESSAGES_UPSERT"),
            ("messages.upsrt", "MESSAGES_UPSERT"),
            ("GRUP_UPDATE", "GROUPS_UPDATE"),
        ],
    )
    def test_an_unknown_kind_is_named_with_its_place_and_the_nearest(self, spelling: str, near: str) -> None:
        with pytest.raises(Invalid) as caught:
            Catalog([UPSERT, GROUP]).resolve(spelling, "webhook.events[1]")
        assert caught.value.messages == (
            f"webhook.events[1]: {spelling!r} is not a known event kind. Did you mean {near}?",
        )

    @pytest.mark.parametrize("spelling", ["zzzz", "", "BACKLOG_NORMAL"])
    def test_kinds_that_are_not_similar_or_not_allowed_are_not_suggested(self, spelling: str) -> None:
        operational = EventKind(name="BACKLOG_NORMALS", meaning="X.", operational=True)
        with pytest.raises(Invalid) as caught:
            Catalog([UPSERT, GROUP, operational]).resolve(spelling, "event")
        assert caught.value.messages == (f"event: {spelling!r} is not a known event kind.",)

    @pytest.mark.parametrize(
        ("spelling", "near"),
        [
            ("message", "MESSAGES_UPSERT"),
            ("message.any", "MESSAGES_UPSERT"),
            ("messages", "MESSAGES_UPSERT"),
            ("message_create", "MESSAGES_UPSERT"),
            ("message.ack", "MESSAGES_UPDATE"),
            ("statuses", "MESSAGES_UPDATE"),
            ("ReadReceipt", "MESSAGES_UPDATE"),
            ("session.status", "CONNECTION_UPDATE"),
            ("qr", "QRCODE_UPDATED"),
        ],
    )
    def test_the_names_of_other_systems_suggest_what_they_mean(self, spelling: str, near: str) -> None:
        for stored in True, False:
            with pytest.raises(Invalid, match=f"Did you mean {near}\\?$"):
                Catalog([*BUILT_IN_KINDS, GROUP]).resolve(spelling, "event", stored=stored)

    def test_a_name_of_another_system_suggests_no_kind_that_is_not_there(self) -> None:
        with pytest.raises(Invalid, match=r"^event: 'message.revoked' is not a known event kind\.$"):
            Catalog(BUILT_IN_KINDS).resolve("message.revoked", "event")

    @pytest.mark.parametrize("spelling", ["all", "ALL", "Any", "every"])
    def test_every_kind_is_asked_for_with_none(self, spelling: str) -> None:
        catalog = Catalog([*BUILT_IN_KINDS, EventKind(name="CALL", meaning="X.")])
        said = f"^events: {spelling!r} is not a known event kind. To have every kind, name none.$"
        with pytest.raises(Invalid, match=said):
            catalog.resolve(spelling, "events", stored=True)
        with pytest.raises(Invalid, match=f"^event: {spelling!r} is not a known event kind.$"):
            catalog.resolve(spelling, "event")

    def test_former_kinds_are_found_where_something_stored_is_asked_for(self) -> None:
        catalog = Catalog([UPSERT, GROUP])
        catalog.add_former(["OLD_ONE", "MESSAGES_UPSERT"])
        catalog.remove(GROUP)
        assert catalog.stored() == ["MESSAGES_UPSERT", "GROUPS_UPDATE", "OLD_ONE"]
        assert catalog.resolve("old.one", "kind", stored=True).name == "OLD_ONE"
        assert catalog.resolve("messages.upsert", "kind", stored=True) is UPSERT
        assert [one.name for one in catalog] == ["MESSAGES_UPSERT"]
        with pytest.raises(Invalid):
            catalog.resolve("OLD_ONE", "event")

    def test_an_operational_kind_is_suggested_where_it_is_allowed(self) -> None:
        operational = EventKind(name="BACKLOG_NORMAL", meaning="X.", operational=True)
        with pytest.raises(Invalid) as caught:
            Catalog([operational]).resolve("BACKLOG_NORML", "operations.events[0]", operational=True)
        assert caught.value.messages == (
            "operations.events[0]: 'BACKLOG_NORML' is not an operational kind. Did you mean BACKLOG_NORMAL?",
        )

    def test_an_empty_catalog_has_nothing_to_suggest(self) -> None:
        with pytest.raises(Invalid) as caught:
            Catalog().resolve("X", "event")
        assert caught.value.messages == ("event: 'X' is not a known event kind.",)

    def test_a_long_name_is_cut_in_the_message(self) -> None:
        with pytest.raises(Invalid) as caught:
            Catalog([UPSERT]).resolve("A" * 100_000, "event")
        assert len(str(caught.value)) < 200

    @pytest.mark.parametrize("spelling", [None, 5, ["MESSAGES_UPSERT"], {}])
    def test_a_kind_must_be_text(self, spelling: object) -> None:
        with pytest.raises(Invalid, match=r"^event must be the name of an event kind, a string\.$"):
            Catalog([UPSERT]).resolve(spelling, "event")

    @given(st.text(max_size=100))
    def test_any_text_is_answered(self, spelling: str) -> None:
        catalog = Catalog([UPSERT])
        if catalog.get(spelling) is None:
            with pytest.raises(Invalid):
                catalog.resolve(spelling, "event")
