"""Every spelling of ``set``, in every combination, against a running server."""

import itertools
from typing import Any

import pytest

from tests.support.gateway_process import ReceiverProcess, Server

pytestmark = pytest.mark.e2e

KINDS = ["MESSAGES_UPSERT", "CONNECTION_UPDATE"]
SPELLINGS = [KINDS, ["messages.upsert", "connection.update"], ["MESSAGES_UPSERT", "connection.update"]]
BY_EVENTS = ["byEvents", "webhookByEvents", "webhook_by_events"]
BASE64 = ["base64", "webhookBase64", "webhook_base64"]
COMBINATIONS = list(itertools.product([False, True], SPELLINGS, BY_EVENTS, BASE64))


@pytest.mark.parametrize(("wrapped", "events", "by_events", "base64"), COMBINATIONS)
def test_each_combination_of_spellings_means_the_same(
    server: Server, wrapped: bool, events: list[str], by_events: str, base64: str
) -> None:
    fields = {
        "enabled": True,
        "url": "https://app.example/hook",
        by_events: True,
        base64: True,
        "events": events,
    }
    body = {"webhook": fields} if wrapped else fields
    stored = server.post("/webhook/set/dialects", body, status=201)
    assert stored["url"] == "https://app.example/hook"
    assert stored["events"] == KINDS
    assert stored["enabled"] is stored["webhookByEvents"] is stored["webhookBase64"] is True
    assert stored["warnings"] == []
    found = server.get("/webhook/find/dialects")
    assert {**found, "updatedAt": None} == {**stored, "updatedAt": None}


MINIMAL: list[dict[str, Any]] = [
    {"url": "https://app.example/min", "events": KINDS},
    {"webhook": {"url": "https://app.example/min", "events": KINDS, "headers": {}}},
]


@pytest.mark.parametrize("body", MINIMAL, ids=["flat", "wrapped"])
def test_missing_fields_have_defaults(server: Server, body: dict[str, Any]) -> None:
    instance = f"minimal{MINIMAL.index(body)}"
    stored = server.post(f"/webhook/set/{instance}", body, status=201)
    assert stored["enabled"] is True
    assert stored["webhookByEvents"] is stored["webhookBase64"] is False
    assert stored["headers"] == {}
    assert stored["instance"] == instance
    assert stored["label"] == "default"


@pytest.mark.parametrize("events", [{}, {"events": []}], ids=["omitted", "empty"])
def test_no_kinds_means_every_kind(server: Server, events: dict[str, Any]) -> None:
    stored = server.post("/webhook/set/all", {"url": "https://app.example/all", **events}, status=201)
    kinds = {kind["name"] for kind in server.get("/event/kinds") if not kind["operational"]}
    assert set(stored["events"]) == kinds
    assert {"MESSAGES_UPSERT", "QRCODE_UPDATED", "GROUPS_UPSERT"} <= kinds


def test_a_disabled_registration_may_have_any_url(server: Server) -> None:
    stored = server.post("/webhook/set/off", {"enabled": False, "url": "vazio"}, status=201)
    assert (stored["enabled"], stored["url"]) == (False, "vazio")


def test_a_missing_registration_is_null(server: Server) -> None:
    server.post("/instance/create", {"instanceName": "bare"}, status=201)
    assert server.get("/webhook/find/bare") is None


@pytest.mark.parametrize(
    ("body", "place", "hint"),
    [
        ({}, "url", ""),
        ({"url": "http://"}, "url", "host"),
        ({"url": "http://a b/"}, "url", ""),
        ({"url": "ftp://a.example/"}, "url", "http"),
        ({"url": "https://a.example/" + "x" * 2048}, "url", "2048"),
        ({"url": "https://a.example/", "events": ["MESSAGES_UPSRT"]}, "events[0]", "MESSAGES_UPSERT"),
        ({"url": "https://a.example/", "headers": {"x": "a\r\nb: c"}}, "headers", ""),
        ({"url": "https://a.example/", "headers": {"webhook-id": "1"}}, "headers", "webhook-id"),
        ({"url": "https://a.example/", "secret": "whsec_short"}, "secret", "24"),
    ],
)
def test_bad_input_is_named_and_not_stored(
    server: Server, body: dict[str, Any], place: str, hint: str
) -> None:
    server.http.post("/instance/create", json={"instanceName": "bad"})
    answer = server.post("/webhook/set/bad", body, status=400)
    assert (answer["status"], answer["error"]) == (400, "Bad Request")
    text = " ".join(answer["response"]["message"])
    assert place in text
    assert hint in text
    assert server.get("/webhook/find/bad") is None


def test_by_events_adds_the_kind_to_the_path(server: Server, receiver: ReceiverProcess) -> None:
    server.set("paths", receiver.url("/by/?a=1"), byEvents=True)
    server.emit("paths", "MESSAGES_UPSERT", {"key": {"remoteJid": "a"}})
    assert receiver.next("/by/messages-upsert?a=1").json["instance"] == "paths"


def test_each_label_is_a_registration(server: Server, receiver: ReceiverProcess) -> None:
    server.set("labels", receiver.url("/labels/default"))
    server.post("/webhook/set/labels/crm", {"url": receiver.url("/labels/crm")}, status=201)
    event_id = server.emit("labels", "CONNECTION_UPDATE", {"instance": "labels", "state": "open"})
    for path in ("/labels/default", "/labels/crm"):
        assert receiver.next(path).headers["webhook-id"] == event_id
    assert server.get(f"/delivery/find/labels/{event_id}")["event"]["id"] == event_id
