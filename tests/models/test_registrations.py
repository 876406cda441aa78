"""Registrations: what they want, what a change makes of them, and the lanes their events go in."""

from __future__ import annotations

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgw.models.events import Event
from hookgw.models.instances import Instance
from hookgw.models.registrations import (
    DEFAULT_GRACE,
    Ordering,
    Registration,
    RegistrationChange,
    RetryOptions,
    Secret,
    chat_of,
    lane_of,
    lanes_of,
    new_registration_id,
    new_secret,
)
from hookgw.models.signing_keys import Signature

URL = "https://example.org/hook"
NOW = 1_700_000_000.0


def registration(
    ordering: Ordering = Ordering.URL, concurrency: int = 1, events: tuple[str, ...] = ()
) -> Registration:
    return Registration(
        id="reg_1", instance="loja1", url=URL, ordering=ordering, concurrency=concurrency, events=events
    )


def event(event_id: str = "msg_1", data: object = None) -> Event:
    return Event(id=event_id, kind="CALL", instance="loja1", data_json=msgspec.json.encode(data), time=NOW)


class TestWants:
    def test_without_a_list_every_kind_is_wanted(self) -> None:
        assert registration().wants("ANYTHING")

    def test_with_a_list_only_its_kinds_are(self) -> None:
        picky = registration(events=("CALL", "MESSAGES_UPSERT"))
        assert picky.wants("CALL")
        assert not picky.wants("MESSAGES_SET")

    def test_disabled_it_wants_nothing(self) -> None:
        off = msgspec.structs.replace(registration(), enabled=False)
        assert not off.wants("CALL")


class TestSecrets:
    def test_a_fresh_secret_has_the_form_of_standard_webhooks(self) -> None:
        secret = new_secret()
        assert secret.value.startswith("whsec_")
        assert len(base64.b64decode(secret.value.removeprefix("whsec_"), validate=True)) == 32
        assert secret.expires_at is None
        assert new_secret() != secret

    def test_a_secret_signs_until_it_expires_and_the_newest_comes_first(self) -> None:
        new, old, gone = Secret("whsec_bmV3"), Secret("whsec_b2xk", NOW + 1), Secret("whsec_Z29uZQ==", NOW)
        both = msgspec.structs.replace(registration(), secrets=(new, old, gone))
        assert both.secrets_in_force(NOW) == (new, old)
        assert both.secrets_in_force(NOW + 1) == (new,)


class TestLanes:
    @pytest.mark.parametrize("concurrency", [0, 1, 8])
    def test_in_order_of_the_url_there_is_one_lane(self, concurrency: int) -> None:
        whole = registration(Ordering.URL, concurrency)
        assert lanes_of(whole) == (URL,)
        assert lane_of(whole, event()) == URL

    @pytest.mark.parametrize("ordering", [Ordering.CHAT, Ordering.NONE])
    def test_a_single_partition_is_the_lane_of_the_url(self, ordering: Ordering) -> None:
        assert lanes_of(registration(ordering, 1)) == (URL,)
        assert lane_of(registration(ordering, 1), event()) == URL

    def test_partitions_are_numbered(self) -> None:
        assert lanes_of(registration(Ordering.CHAT, 3)) == (f"{URL}#0", f"{URL}#1", f"{URL}#2")

    def test_a_chat_stays_in_one_lane_whatever_the_event(self) -> None:
        spread = registration(Ordering.CHAT, 8)
        of_one_chat = [event(f"msg_{n}", {"key": {"remoteJid": "a@s"}, "n": n}) for n in range(20)]
        assert len({lane_of(spread, one) for one in of_one_chat}) == 1

    def test_chats_are_spread_over_the_lanes(self) -> None:
        spread = registration(Ordering.CHAT, 4)
        chats = [event("msg_1", {"key": {"remoteJid": f"{n}@s"}}) for n in range(100)]
        assert {lane_of(spread, one) for one in chats} == set(lanes_of(spread))

    def test_without_order_events_are_spread_by_their_id(self) -> None:
        spread = registration(Ordering.NONE, 4)
        same_chat = [event(f"msg_{n}", {"key": {"remoteJid": "a@s"}}) for n in range(100)]
        assert {lane_of(spread, one) for one in same_chat} == set(lanes_of(spread))

    def test_the_lane_of_an_event_is_the_same_in_every_process(self) -> None:
        """It is stored. CRC-32 of this id is the algorithm's published check value, 0xCBF43926."""
        assert lane_of(registration(Ordering.NONE, 1000), event("123456789")) == f"{URL}#{0xCBF43926 % 1000}"

    @given(st.sampled_from([Ordering.CHAT, Ordering.NONE]), st.integers(1, 64), st.text(), st.text())
    def test_an_event_is_in_one_of_the_lanes(self, ordering: Ordering, many: int, a: str, chat: str) -> None:
        spread = registration(ordering, many)
        assert lane_of(spread, event(a, {"remoteJid": chat})) in lanes_of(spread)

    @pytest.mark.parametrize(
        ("data", "chat"),
        [
            ({"key": {"remoteJid": "a@s"}}, "a@s"),
            ({"remoteJid": "b@s"}, "b@s"),
            ({"key": {"remoteJid": "a@s"}, "remoteJid": "b@s"}, "a@s"),
            ({"key": "x", "remoteJid": "b@s"}, "b@s"),
            ({"key": {"id": "1"}, "remoteJid": 5}, ""),
            ({"key": {"remoteJid": None}}, ""),
            ({}, ""),
            ([{"remoteJid": "a@s"}], ""),
            ("a@s", ""),
            (None, ""),
        ],
    )
    def test_the_chat_of_an_event(self, data: object, chat: str) -> None:
        assert chat_of(event(data=data)) == chat


class TestChange:
    def test_from_nothing_it_makes_a_registration_with_an_id_and_a_secret(self) -> None:
        made = RegistrationChange(url=URL).apply(None, instance="loja1", label="crm", now=NOW)
        assert made.id.startswith("reg_")
        assert (made.instance, made.label, made.url) == ("loja1", "crm", URL)
        assert (made.enabled, made.events) == (True, ())
        assert len(made.secrets) == 1
        assert made.created_at == made.updated_at == NOW

    def test_given_fields_are_applied(self) -> None:
        change = RegistrationChange(
            url=URL,
            enabled=False,
            events=("CALL",),
            by_events=True,
            base64=True,
            headers={"x": "1"},
            secret=Secret("whsec_bmV3"),
            ordering=Ordering.CHAT,
            concurrency=4,
            timeout=3.0,
            retry=RetryOptions(max_age=60.0),
            plugins={"filters": {"groups": False}},
        )
        made = change.apply(None, instance="loja1", label="default", now=NOW)
        assert made.secrets == (Secret("whsec_bmV3"),)
        for name in msgspec.structs.asdict(change).keys() - {"secret", "signature"}:
            assert getattr(made, name) == getattr(change, name), name

    def test_url_enabled_and_events_are_replaced_and_the_rest_stays(self) -> None:
        old = Registration(
            id="reg_1",
            instance="loja1",
            url="https://old.example",
            events=("CALL",),
            by_events=True,
            base64=True,
            headers={"x": "1"},
            secrets=(Secret("whsec_b2xk"),),
            ordering=Ordering.NONE,
            concurrency=4,
            timeout=3.0,
            retry=RetryOptions(max_age=60.0),
            plugins={"filters": {}},
            created_at=NOW - 100,
        )
        made = RegistrationChange(url=URL).apply(old, instance="loja1", label="default", now=NOW)
        assert made == msgspec.structs.replace(old, url=URL, events=(), updated_at=NOW)

    def test_one_that_hookgw_disabled_starts_afresh(self) -> None:
        old = msgspec.structs.replace(
            registration(), enabled=False, disabled_reason="It answered 410.", failing_since=NOW - 9
        )
        made = RegistrationChange(url=URL).apply(old, instance="loja1", label="default", now=NOW)
        assert (made.enabled, made.disabled_reason, made.failing_since) == (True, None, None)

    def test_a_timeout_of_none_takes_the_gateways_again(self) -> None:
        old = msgspec.structs.replace(registration(), timeout=3.0)
        change = RegistrationChange(url=URL, timeout=None)
        assert change.apply(old, instance="loja1", label="default", now=NOW).timeout is None

    def test_a_given_secret_replaces_all_former_ones(self) -> None:
        old = msgspec.structs.replace(
            registration(), secrets=(Secret("whsec_b2xk"), Secret("whsec_YQ==", NOW + 9))
        )
        change = RegistrationChange(url=URL, secret=Secret("whsec_bmV3"))
        made = change.apply(old, instance="loja1", label="default", now=NOW)
        assert made.secrets == (Secret("whsec_bmV3"),)


def test_ids_of_registrations_are_different() -> None:
    assert len({new_registration_id() for _ in range(100)}) == 100


@pytest.mark.parametrize("record", [registration(), Instance(name="loja1", id="0b5c")])
def test_records_survive_being_stored_as_json(record: Registration | Instance) -> None:
    assert msgspec.json.decode(msgspec.json.encode(record), type=type(record)) == record


class TestSignature:
    def test_a_new_registration_signs_as_it_is_asked_to(self) -> None:
        for signature in Signature:
            change = RegistrationChange(url=URL, signature=signature)
            made = change.apply(None, instance="loja1", label="default", now=NOW)
            assert made.signature is signature
            assert [s.signature for s in made.secrets] == [signature]

    def test_without_secrets_it_is_v1(self) -> None:
        assert msgspec.structs.replace(registration(), secrets=()).signature is Signature.V1

    def test_another_signature_is_a_rotation_with_a_grace(self) -> None:
        gone = Secret("whsec_YQ==", NOW - 1)
        old = msgspec.structs.replace(registration(), secrets=(Secret("whsec_bmV3"), gone))
        change = RegistrationChange(url=URL, signature=Signature.V1A)
        new = change.apply(old, instance="loja1", label="default", now=NOW)
        assert new.signature is Signature.V1A
        assert new.secrets[1:] == (Secret("whsec_bmV3", NOW + DEFAULT_GRACE),)
        assert change.apply(new, instance="loja1", label="default", now=NOW).secrets == new.secrets

    def test_without_a_word_the_signature_stays(self) -> None:
        old = msgspec.structs.replace(registration(), secrets=(new_secret(Signature.V1A),))
        kept = RegistrationChange(url=URL).apply(old, instance="loja1", label="default", now=NOW)
        assert kept.secrets == old.secrets
