"""Registrations: what they want, what a change makes of them, and when two of them are alike to a lane."""

import base64
from typing import Any

import msgspec
import pytest

from hookgw import Event, Registration
from tests.public.kernel import Secret, Signature, parse_rate
from tests.public.records import (
    DEFAULT_GRACE,
    Condition,
    FilterOp,
    Instance,
    Ordering,
    RetryOptions,
    TlsIdentity,
    new_registration_id,
    new_secret,
)
from tests.public.webhooks import RegistrationChange

URL = "https://example.org/hook"
NAMED = TlsIdentity(server_name="receiver.internal")
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
            rate=parse_rate("20/s"),
            timeout=3.0,
            retry=RetryOptions(max_age=60.0),
            filter=(Condition("/data/x", FilterOp.EXISTS),),
            plugins={"filters": {"groups": False}},
            tls=NAMED,
        )
        made = change.apply(None, instance="loja1", label="default", now=NOW)
        assert made.secrets == (Secret("whsec_bmV3"),)
        for name in msgspec.structs.asdict(change).keys() - {"is_set", "paused", "secret", "signature"}:
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
        assert made == msgspec.structs.replace(old, url=URL, events=(), updated_at=NOW, fresh_since=NOW)

    def test_one_that_hookgw_disabled_starts_afresh(self) -> None:
        old = msgspec.structs.replace(
            registration(), enabled=False, disabled_reason="It answered 410.", failing_since=NOW - 9
        )
        made = RegistrationChange(url=URL).apply(old, instance="loja1", label="default", now=NOW)
        assert (made.enabled, made.disabled_reason, made.failing_since) == (True, None, None)

    @pytest.mark.parametrize(
        ("before", "after", "redivided"),
        [
            ((Ordering.URL, 1), (Ordering.URL, 1), False),
            ((Ordering.URL, 1), (Ordering.URL, 8), False),
            ((Ordering.URL, 8), (Ordering.CHAT, 1), False),
            ((Ordering.NONE, 1), (Ordering.CHAT, 1), False),
            ((Ordering.CHAT, 4), (Ordering.CHAT, 4), False),
            ((Ordering.INSTANCE, 4), (Ordering.INSTANCE, 16), False),
            ((Ordering.CHAT, 4), (Ordering.CHAT, 5), True),
            ((Ordering.CHAT, 4), (Ordering.NONE, 4), True),
            ((Ordering.CHAT, 4), (Ordering.URL, 4), True),
            ((Ordering.URL, 1), (Ordering.INSTANCE, 1), True),
            ((Ordering.INSTANCE, 1), (Ordering.CHAT, 1), True),
        ],
    )
    def test_another_partitioning_is_another_generation(
        self, before: tuple[Ordering, int], after: tuple[Ordering, int], redivided: bool
    ) -> None:
        old = msgspec.structs.replace(registration(*before), generation=7)
        change = RegistrationChange(url=URL, ordering=after[0], concurrency=after[1])
        new = change.apply(old, instance="loja1", label="default", now=NOW)
        assert new.generation == (8 if redivided else 7)
        assert (new.partitioning == old.partitioning) is not redivided

    def test_another_url_is_no_other_generation(self) -> None:
        old = registration(Ordering.CHAT, 4)
        change = RegistrationChange(url="https://example.net")
        assert change.apply(old, instance="loja1", label="default", now=NOW).generation == 0

    def test_a_new_registration_has_generation_0(self) -> None:
        change = RegistrationChange(url=URL, ordering=Ordering.CHAT, concurrency=4)
        assert change.apply(None, instance="loja1", label="default", now=NOW).generation == 0

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


class TestChangeOfSomeFields:
    FAILING = msgspec.structs.replace(registration(Ordering.CHAT, 4), failing_since=NOW - 9, events=("CALL",))
    DISABLED = msgspec.structs.replace(registration(), enabled=False, disabled_reason="It answered 410.")

    @staticmethod
    def changed(old: Registration, **fields: Any) -> Registration:
        left_out = dict.fromkeys(("url", "enabled", "events"), msgspec.UNSET)
        change = RegistrationChange(is_set=False, **(left_out | fields))
        return change.apply(old, instance="loja1", label="default", now=NOW)

    @pytest.mark.parametrize(
        "fields",
        [
            *({"events": ("QRCODE_UPDATED",)}, {"enabled": True}, {"enabled": False}, {"base64": True}),
            *({"retry": RetryOptions(max_age=1.0)}, {"plugins": {"a": {}}}, {"concurrency": 4}),
        ],
    )
    def test_only_the_given_field_changes(self, fields: dict[str, Any]) -> None:
        made = self.changed(self.FAILING, **fields)
        assert made == msgspec.structs.replace(self.FAILING, updated_at=NOW, **fields)

    @pytest.mark.parametrize(
        "fields", [{"url": "https://new.example"}, {"headers": {"x": "1"}}, {"timeout": 2.0}, {"tls": NAMED}]
    )
    def test_another_target_ends_the_failures_of_the_former_one(self, fields: dict[str, Any]) -> None:
        made = self.changed(self.FAILING, **fields)
        assert made == msgspec.structs.replace(self.FAILING, updated_at=NOW, failing_since=None, **fields)

    def test_enabling_is_a_fresh_start(self) -> None:
        made = self.changed(self.DISABLED, enabled=True)
        assert (made.enabled, made.disabled_reason, made.fresh_since) == (True, None, NOW)

    @pytest.mark.parametrize("fields", [{"enabled": False}, {"url": URL + "/new"}, {"events": ("CALL",)}])
    def test_what_stays_disabled_keeps_the_reason(self, fields: dict[str, Any]) -> None:
        made = self.changed(self.DISABLED, **fields)
        assert (made.enabled, made.disabled_reason) == (False, "It answered 410.")


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"url": "https://example.net"}, False),
        ({"headers": {"x": "1"}}, False),
        ({"secrets": (Secret("whsec_bmV3"),)}, False),
        ({"timeout": 3.0}, False),
        ({"tls": NAMED}, False),
        ({"by_events": True}, False),
        ({"enabled": False, "failing_since": NOW, "updated_at": NOW}, True),
        ({"ordering": Ordering.CHAT, "concurrency": 4, "generation": 1}, True),
        ({"events": ("CALL",), "retry": RetryOptions(max_age=1.0), "plugins": {"a": 1}}, True),
    ],
)
def test_what_makes_another_target(changes: dict[str, Any], same: bool) -> None:
    changed = msgspec.structs.replace(registration(), **changes)
    assert changed.has_target_of(registration()) is registration().has_target_of(changed) is same


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
