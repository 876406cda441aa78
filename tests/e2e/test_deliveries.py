"""Deliveries to another process: bodies, headers, signatures, order."""

import json
from pathlib import Path
from typing import Any

import pytest
import standardwebhooks
import svix.webhooks

import hookgw
from tests.support.gateway_process import Arrival, ReceiverProcess, Server

pytestmark = pytest.mark.e2e

PAYLOADS = sorted((Path(__file__).parents[1] / "payloads").glob("*.json"))


def decode_exactly(text: bytes | str) -> Any:
    """Decode JSON so that the order of keys and the type of each number can be compared."""
    return json.loads(
        text, object_pairs_hook=list, parse_int=lambda s: f"i{s}", parse_float=lambda s: f"f{s}"
    )


def fields(text: bytes | str) -> dict[str, Any]:
    return dict(decode_exactly(text))


def verify(arrival: Arrival, secret: str) -> None:
    """Verify with two independent libraries. Both must also refuse a changed body."""
    for library in (standardwebhooks, svix.webhooks):
        webhook = library.Webhook(secret)
        webhook.verify(arrival.body, arrival.headers)
        with pytest.raises(library.WebhookVerificationError):
            webhook.verify(arrival.body + b" ", arrival.headers)


@pytest.mark.parametrize("file", PAYLOADS, ids=lambda file: file.stem)
def test_an_envelope_of_another_gateway_arrives_intact(
    server: Server, receiver: ReceiverProcess, file: Path
) -> None:
    instance, path = f"p-{file.stem}", f"/payloads/{file.stem}"
    secret = server.set(instance, receiver.url(path))
    emitted = file.read_bytes()
    answer = server.http.post(
        f"/event/emit/{instance}", content=emitted, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 202, answer.text
    arrival = receiver.next(path)
    verify(arrival, secret)
    sent, got = fields(emitted), fields(arrival.body)
    assert got["data"] == sent["data"]
    assert list(got)[:3] == ["event", "instance", "data"]
    assert got["event"] == sent["event"].upper().replace(".", "_")
    assert (got["instance"], got["destination"]) == (instance, receiver.url(path))
    for name in ("date_time", "sender"):
        assert got[name] == sent[name]
    assert arrival.headers["webhook-id"] == answer.json()["ids"][0]


def test_every_payload_file_is_tested() -> None:
    assert len(PAYLOADS) == 16


def test_numbers_keep_their_value_and_type(server: Server, receiver: ReceiverProcess) -> None:
    server.set("big", receiver.url("/big"))
    body = b'{"event": "CALL", "data": {"z": 18446744073709551617, "a": 1e2, "n": -0.0}}'
    server.http.post("/event/emit/big", content=body, headers={"content-type": "application/json"})
    data = dict(fields(receiver.next("/big").body)["data"])
    assert list(data.items()) == [("z", "i18446744073709551617"), ("a", "f1e2"), ("n", "f-0.0")]


def test_the_headers_describe_the_event(server: Server, receiver: ReceiverProcess) -> None:
    server.set("headers", receiver.url("/headers"), headers={"X-Own": "mine"})
    event_id = server.emit("headers", "send.message", {"key": {}}, id="my-id_1")
    headers = receiver.next("/headers").headers
    assert event_id == headers["webhook-id"] == "my-id_1"
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"] == f"hookgw/{hookgw.__version__}"
    assert headers["x-event-type"] == "SEND_MESSAGE"
    assert headers["x-instance-name"] == "headers"
    assert headers["x-attempt"] == "1"
    assert headers["x-own"] == "mine"


def test_a_batch_arrives_in_order_and_once(server: Server, receiver: ReceiverProcess) -> None:
    server.set("batch", receiver.url("/batch"))
    events = [{"event": "CALL", "data": {"n": n}, "id": f"n{n}"} for n in range(300)]
    assert server.post("/event/emit/batch", events, status=202)["accepted"] == 300
    again = server.post("/event/emit/batch", events, status=202)
    assert (again["accepted"], again["duplicates"]) == (0, 300)
    server.emit("batch", "CALL", {"n": 300})
    assert [receiver.next("/batch").json["data"]["n"] for _ in range(301)] == list(range(301))


def test_a_batch_with_one_bad_event_is_refused_whole(server: Server, receiver: ReceiverProcess) -> None:
    server.set("whole", receiver.url("/whole"))
    events = [{"event": "CALL", "data": {}}, {"event": "CALLS_", "data": {}}, {"event": "CALL", "data": {}}]
    answer = server.post("/event/emit/whole", events, status=400)
    assert "[1]" in answer["response"]["message"][0]
    only = server.emit("whole", "CALL", {"n": 1})
    assert receiver.next("/whole").headers["webhook-id"] == only


def test_a_batch_may_be_json_lines(server: Server, receiver: ReceiverProcess) -> None:
    server.set("lines", receiver.url("/lines"))
    lines = "".join(json.dumps({"event": "CALL", "data": {"n": n}}) + "\n" for n in range(3))
    answer = server.http.post(
        "/event/emit/lines", content=lines, headers={"content-type": "application/x-ndjson"}
    )
    assert answer.status_code == 202
    assert [receiver.next("/lines").json["data"]["n"] for _ in range(3)] == [0, 1, 2]


def test_an_idempotency_key_becomes_the_event_id(server: Server, receiver: ReceiverProcess) -> None:
    server.set("idem", receiver.url("/idem"))
    for _ in range(2):
        answer = server.http.post(
            "/event/emit/idem", json={"event": "CALL", "data": {}}, headers={"idempotency-key": "once"}
        )
        assert answer.json()["ids"] == ["once"]
    last = server.emit("idem", "CALL", {})
    assert [receiver.next("/idem").headers["webhook-id"] for _ in range(2)] == ["once", last]


def test_both_secrets_sign_after_a_rotation(server: Server, receiver: ReceiverProcess) -> None:
    old = server.set("rotate", receiver.url("/rotate"))
    new = server.post("/webhook/rotateSecret/rotate", {"grace": "1h"})["secret"]
    assert new != old
    server.emit("rotate", "CALL", {})
    arrival = receiver.next("/rotate")
    verify(arrival, old)
    verify(arrival, new)


def test_a_rejected_delivery_is_recorded_and_the_next_goes_on(
    server: Server, receiver: ReceiverProcess
) -> None:
    server.set("rejected", receiver.url("/status/422"))
    first = server.emit("rejected", "CALL", {"n": 1})
    second = server.emit("rejected", "CALL", {"n": 2})
    assert [receiver.next("/status/422").headers["webhook-id"] for _ in range(2)] == [first, second]
    server.set("rejected", receiver.url("/accepted"))
    server.emit("rejected", "CALL", {"n": 3})
    receiver.next("/accepted")
    report = server.get(f"/delivery/find/rejected/{first}")
    assert report["state"] == "dead"
    assert [(attempt["status"], attempt["outcome"]) for attempt in report["attempts"]] == [(422, "rejected")]


def test_an_instance_key_sees_only_its_instance(server: Server, receiver: ReceiverProcess) -> None:
    mine = server.post("/instance/create", {"instanceName": "mine"}, status=201)["hash"]
    server.set("others", receiver.url("/others"))
    headers = {"apikey": mine}
    assert server.http.get("/webhook/find/mine", headers=headers).status_code == 200
    assert server.http.get("/webhook/find/others", headers=headers).status_code == 403
    assert server.http.get("/webhook/find/nobody", headers=headers).status_code == 403
    assert server.http.get("/webhook/find/others", headers={"apikey": "wrong"}).status_code == 401
