from typing import Any

import pytest

from hookgw import EventKind, InstanceSettings, Invalid
from tests.public.instances import Creation, parse_creation, parse_option_changes
from tests.public.records import Catalog
from tests.public.webhooks import RegistrationChange

CATALOG = Catalog([EventKind(name="MESSAGES_UPSERT", meaning="…")])
URL = "https://example.com/hook"


def creation(**fields: Any) -> Creation:
    return parse_creation({"instanceName": "loja1", **fields}, CATALOG)


def problems(body: Any) -> tuple[str, ...]:
    with pytest.raises(Invalid) as caught:
        parse_creation(body, CATALOG)
    return caught.value.messages


def test_a_name_is_enough() -> None:
    assert creation() == Creation(
        name="loja1",
        token=None,
        integration="",
        options={},
        settings=InstanceSettings(),
        webhook=None,
        warnings=[],
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"webhook": {"url": URL, "byEvents": True, "events": ["MESSAGES_UPSERT"]}},
        {"webhook": {"url": URL, "enabled": True}, "webhookByEvents": True, "events": ["messages.upsert"]},
        {"webhook": URL, "webhook_by_events": True, "events": ["MESSAGES_UPSERT"]},
    ],
)
def test_a_webhook_is_set_with_it_in_every_dialect(fields: dict[str, Any]) -> None:
    made = creation(**fields)
    assert made.webhook == RegistrationChange(url=URL, by_events=True, events=("MESSAGES_UPSERT",))
    assert made.warnings == []


@pytest.mark.parametrize("webhook", ["", {}, None])
def test_an_empty_webhook_means_none(webhook: Any) -> None:
    assert creation(webhook=webhook).webhook is None


@pytest.mark.parametrize(
    ("webhook", "problem"),
    [
        ("ftp://x", "webhook.url: The URL must begin"),
        ({"url": URL, "events": ["NOPE"]}, "webhook.events[0]: 'NOPE' is no"),
        (5, "webhook must be an object, not a number."),
        ({"events": []}, "webhook.url is missing."),
    ],
)
def test_a_bad_webhook_is_refused(webhook: Any, problem: str) -> None:
    (found,) = problems({"instanceName": "loja1", "webhook": webhook})
    assert found.startswith(problem)


def test_every_mistake_is_reported_at_once() -> None:
    assert problems({"token": 5, "integration": [], "webhook": {"url": 1}}) == (
        "instanceName is missing.",
        "token must be a string, not a number.",
        "integration must be a string, not a list.",
        "webhook.url must be a string, not a number.",
    )


def test_further_fields_are_the_connectors_options() -> None:
    made = creation(
        integration="simulator", rate=5, token="a-secret-token-1", webhook={"url": URL, "colour": 1}
    )
    assert (made.integration, made.options, made.token) == ("simulator", {"rate": 5}, "a-secret-token-1")
    assert made.warnings == ["webhook.colour is an unknown field; it was ignored."]


@pytest.mark.parametrize("name", ["n" * 65, "line\nbreak", ""])
def test_a_further_field_may_have_any_name(name: str) -> None:
    assert creation(integration="simulator", **{name: 1}).options == {name: 1}
    [warning] = creation(**{name: 1}).warnings
    assert warning.isprintable()


def test_without_a_connector_further_fields_are_warned_of() -> None:
    made = creation(qrcode=True, number=None)
    assert made.options == {}
    assert made.warnings == [
        "qrcode: without a connector there is no code.",
        "number is an unknown field; it was ignored.",
    ]


@pytest.mark.parametrize("integration", ["WHATSAPP-BAILEYS", "WHATSAPP-BUSINESS", "EVOLUTION"])
def test_the_integrations_of_known_clients_have_no_connector(integration: str) -> None:
    made = creation(integration=integration)
    assert made.integration == ""
    [warning] = made.warnings
    assert warning == (
        f"integration: no connector is set up for {integration}: events come only over HTTP. Name one in "
        "instances.integrations."
    )


def test_an_odd_name_of_an_unknown_field_is_only_shown_otherwise() -> None:
    odd = "\U000ee095" + "x" * 100
    assert creation(**{odd: 1}).warnings == [f"\\U000ee095{'x' * 54}… is an unknown field; it was ignored."]
    assert creation(integration="simulator", **{odd: 1}).options == {odd: 1}


def test_a_client_of_version_1_names_no_integration() -> None:
    connectors = {"WHATSAPP-BAILEYS": "matrix", "EVOLUTION": "simulator"}

    def parsed(**fields: Any) -> tuple[str, str, bool]:
        made = parse_creation({"instanceName": "loja1", **fields}, CATALOG, connectors)
        return made.integration, made.requested_integration, made.connect

    assert parsed(qrcode=True) == ("matrix", "WHATSAPP-BAILEYS", True)
    assert parsed(qrcode=False) == ("", "", False)
    assert parsed() == ("", "", False)
    assert parsed(qrcode=True, integration="EVOLUTION") == ("simulator", "EVOLUTION", True)
    assert parsed(qrcode="yes", integration="WHATSAPP-BUSINESS") == ("", "WHATSAPP-BUSINESS", False)
    assert creation(qrcode=True).integration == ""


@pytest.mark.parametrize(("given", "seconds"), [("6h", 21_600.0), ("1s", 1.0), ("0s", 0.0), (None, None)])
def test_an_option_of_every_instance_is_none_of_its_connector(
    given: str | None, seconds: float | None
) -> None:
    own = {"quiet_after": seconds}
    assert creation(integration="fake", quietAfter=given, rate=5).own_options == own
    assert parse_option_changes({"quietAfter": given, "rate": 5}) == (own, {"rate": 5})
    assert parse_option_changes({"rate": 5}) == ({}, {"rate": 5})


@pytest.mark.parametrize("given", ["0.5s", "366d", 7, True, {}])
def test_quiet_after_is_a_time_of_at_least_a_second(given: Any) -> None:
    assert problems({"instanceName": "loja1", "quietAfter": given})
    with pytest.raises(Invalid, match=r"^quietAfter"):
        parse_option_changes({"quietAfter": given})
