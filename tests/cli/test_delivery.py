import json
from typing import Any

import pytest

from hookgw.testing import Receiver
from tests.cli.conftest import Invoke, says

SUMMARY: dict[str, Any] = {
    "id": "dlv_7",
    "state": "dead",
    "reason": "The receiver answered 404.",
    "kind": "CALL",
    "eventId": "msg_1",
    "label": "crm",
    "url": "https://x/hook",
    "acceptedAt": "2026-11-20T12:00:00.000Z",
    "finishedAt": "2026-11-20T12:00:01.000Z",
    "nextAttemptAt": None,
    "attempts": 2,
}
ATTEMPT = {
    "number": 1,
    "at": "2026-11-20T12:00:00.500Z",
    "duration": 12.5,
    "outcome": "failed",
    "status": 404,
    "error": "The receiver answered 404.",
    "answer": "no such hook",
}
REPORT = SUMMARY | {
    "event": {"data": {"text": "é", "n": 2**70}},
    "attempts": [ATTEMPT, ATTEMPT | {"number": 2, "outcome": "delivered", "error": None, "answer": "fine"}],
}


async def test_list_prints_a_page_and_how_to_get_the_next(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"deliveries": [SUMMARY], "cursor": "dlv_7"})
    result = await invoke("delivery", "list", "loja1", "--limit", "1")
    assert [request.target for request in server.requests] == ["/delivery/list/loja1?limit=1"]
    row = result.stdout.splitlines()[-1].split()
    assert row == ["dlv_7", "dead", "CALL", "crm", "2", "2026-11-20T12:00:00.000Z", "msg_1"]
    assert result.stderr == "This is not the end. For the next page, add: --cursor dlv_7\n"


async def test_a_page_of_a_search_that_found_nothing_yet_does_not_say_that_there_are_more(
    invoke: Invoke, server: Receiver
) -> None:
    server.default = says({"deliveries": [], "cursor": "dlv_9"})
    result = await invoke("delivery", "list", "loja1", "--text", "oi")
    assert result.stderr == "This is not the end. For the next page, add: --cursor dlv_9\n"


async def test_list_passes_on_every_filter(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"deliveries": [], "cursor": None})
    filters = ("--state", "dead", "--kind", "CALL", "--label", "crm", "--limit", "5", "--cursor", "dlv_9")
    times = ("--since", "2026-11-20T12:00:00+02:00", "--until", "2026-11-21T00:00:00Z")
    result = await invoke("delivery", "list", "loja1", *filters, *times)
    assert (result.exit_code, result.stderr) == (0, "")
    query = dict(part.split("=") for part in server.requests[0].target.partition("?")[2].split("&"))
    assert query == {
        "state": "dead",
        "kind": "CALL",
        "label": "crm",
        "limit": "5",
        "cursor": "dlv_9",
        "since": "2026-11-20T10%3A00%3A00.000Z",
        "until": "2026-11-21T00%3A00%3A00.000Z",
    }


async def test_dead_letters_have_a_reason(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"deliveries": [SUMMARY], "cursor": None})
    result = await invoke("delivery", "dead", "loja1", "--label", "crm", "--limit", "5")
    assert server.requests[0].target == "/delivery/list/loja1?state=dead&label=crm&limit=5"
    row = result.stdout.splitlines()[-1].split()
    assert row[:5] == ["dlv_7", "CALL", "crm", "2", "2026-11-20T12:00:01.000Z"]
    assert row[5:] == ["The", "receiver", "answered", "404."]


async def test_dead_letters_have_what_the_receiver_said(invoke: Invoke, server: Receiver) -> None:
    said = ATTEMPT | {"answer": "no such\n  hook " + "x" * 300}
    server.default = says({"deliveries": [SUMMARY | {"lastAttempt": said}], "cursor": None})
    row = (await invoke("delivery", "dead", "loja1")).stdout.splitlines()[-1]
    assert row.endswith("The receiver answered 404.  no such hook " + "x" * 187 + "…")


async def test_resend_prints_the_url(invoke: Invoke, server: Receiver) -> None:
    server.default = says(SUMMARY | {"state": "pending"}, 202)
    result = await invoke("delivery", "resend", "loja1", "msg_1")
    assert (server.requests[0].method, server.requests[0].target) == ("POST", "/delivery/resend/loja1/msg_1")
    assert result.stdout == "dlv_7 will be sent again to https://x/hook\n"


async def test_resend_with_other_data_or_to_another_url(invoke: Invoke, server: Receiver) -> None:
    server.default = says(SUMMARY | {"state": "pending"}, 202)
    await invoke("delivery", "resend", "loja1", "dlv_7", "--data", '{"n": 1e2}')
    assert server.requests[-1].body == b'{"data":{"n": 1e2}}'
    attempt = {"outcome": "delivered", "status": 200, "duration": 1.5, "error": None, "answer": "ok"}
    server.default = says(attempt)
    result = await invoke("delivery", "resend", "loja1", "dlv_7", "--url", "https://x/y")
    assert server.requests[-1].json == {"url": "https://x/y"}
    assert (result.exit_code, "delivered" in result.stdout) == (0, True)
    server.default = says(attempt | {"outcome": "failed", "error": "It answered 500."})
    assert (await invoke("delivery", "resend", "loja1", "dlv_7", "--url", "https://x/y")).exit_code == 1
    both = await invoke("delivery", "resend", "loja1", "dlv_7", "--url", "https://x/y", "--data", "1")
    assert both.exit_code == 2


async def test_several_instances_are_listed_and_cancelled(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"deliveries": [SUMMARY | {"instance": "loja1"}], "cursor": None})
    await invoke("delivery", "dead", "loja1", "--finished-since", "2026-11-20T12:00:00Z")
    assert server.requests.pop().target.endswith("?state=dead&finishedSince=2026-11-20T12%3A00%3A00.000Z")
    options = ["--host", "x", "--status", "5xx", "--failed-since", "dlv_3"]
    result = await invoke("delivery", "list", "--instances", "loja*,shop", *options)
    assert server.requests[-1].target == (
        "/delivery/list?instances=loja%2A%2Cshop&host=x&status=5xx&failedSince=dlv_3"
    )
    assert result.stdout.splitlines()[-1].split()[0] == "loja1"
    counted = {"cancelled": 0, "matching": 3, "instances": {"loja1": {"crm": 1}, "loja2": {"crm": 2}}}
    server.default = says(counted)
    result = await invoke("delivery", "cancel", "--instances", "loja*", "--error", "timeout", "--dry-run")
    (request,) = server.requests[1:]
    assert (request.target, request.json) == (
        "/delivery/cancel",
        {"instances": ["loja*"], "error": "timeout", "dryRun": True},
    )
    assert [line.split() for line in result.stdout.splitlines()[-3:]] == [
        ["loja1", "crm", "1"],
        ["loja2", "crm", "2"],
        ["3", "deliveries", "would", "be", "selected."],
    ]
    asks = await invoke("delivery", "cancel", "--instances", "loja*")
    assert "Cancel 3 pending deliveries of the instances 'loja*'?" in asks.stderr
    server.default = says(counted)
    asks = await invoke("delivery", "cancel", "--tag", "tenant=acme", "--tag", "plan=gold")
    assert "of the instances with tenant=acme, plan=gold?" in asks.stderr
    assert server.requests[-1].json == {"tags": {"tenant": "acme", "plan": "gold"}, "dryRun": True}
    server.default = says({"deliveries": [], "cursor": None})
    await invoke("delivery", "dead", "--tag", "tenant=acme", "--tag", "plan=gold")
    assert server.requests[-1].target == "/delivery/list?state=dead&tag=tenant%3Dacme&tag=plan%3Dgold"
    two = ["--tag", "a=b", "--tag", "a=c"]
    tagged = (["cancel", "loja1", *two[:2]], ["list", "loja1", *two[:2]], ["cancel", *two])
    for args in (
        *tagged,
        ["cancel"],
        *(["list", "loja1", "--instances", "x"], ["cancel", "x", "--instances", "x"]),
    ):
        assert (await invoke("delivery", *args)).exit_code == 2


async def test_show_prints_every_attempt(invoke: Invoke, server: Receiver) -> None:
    server.default = says(REPORT)
    result = await invoke("delivery", "show", "loja1", "msg_1")
    assert server.requests[0].target == "/delivery/find/loja1/msg_1"
    assert '{"text": "é", "n": 1180591620717411303424}' in result.stdout
    first, second = (line.split() for line in result.stdout.splitlines()[-2:])
    assert first == [
        "1",
        "2026-11-20T12:00:00.500Z",
        "12.5",
        "failed",
        "404",
        *["The", "receiver", "answered", "404.", "no", "such", "hook"],
    ]
    assert second[-3:] == ["delivered", "404", "fine"]


async def test_show_prints_urls_if_one_is_another(invoke: Invoke, server: Receiver) -> None:
    sent = [ATTEMPT | {"url": "https://old/hook"}, ATTEMPT | {"url": "https://x/hook", "number": 2}]
    server.default = says(REPORT | {"attempts": sent})
    result = await invoke("delivery", "show", "loja1", "msg_1")
    assert "https://old/hook" in result.stdout
    server.default = says(REPORT | {"attempts": sent[1:]})
    result = await invoke("delivery", "show", "loja1", "msg_1")
    assert result.stdout.count("https://x/hook") == 1


async def test_cancel_of_one_asks_nothing(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"id": "dlv_17", "state": "dead"})
    result = await invoke("delivery", "cancel", "loja1", "dlv_17")
    (request,) = server.requests
    assert (request.method, request.target, request.body) == ("POST", "/delivery/cancel/loja1/dlv_17", b"")
    assert result.stdout == "Cancelled dlv_17. To send it after all, use resend.\n"
    result = await invoke("delivery", "cancel", "loja1", "dlv_17", "--json")
    assert json.loads(result.stdout) == {"id": "dlv_17", "state": "dead"}


async def test_cancel_of_one_takes_no_selection(invoke: Invoke, server: Receiver) -> None:
    result = await invoke("delivery", "cancel", "loja1", "dlv_17", "--label", "crm")
    assert result.exit_code == 2
    assert not server.requests


async def test_cancel_shows_the_count_and_asks(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"cancelled": 0, "matching": 1234})
    options = ["--label", "crm", "--kind", "CALL", "--since", "2026-11-20T12:00:00Z"]
    result = await invoke("delivery", "cancel", "loja1", *options)
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/delivery/cancel/loja1")
    asked = {"label": "crm", "kinds": ["CALL"], "since": "2026-11-20T12:00:00.000Z"}
    assert request.json == asked | {"dryRun": True}
    assert "Cancel 1,234 pending deliveries of 'loja1'?" in result.stderr
    assert result.exit_code == 1
    server.default = says({"cancelled": 1234})
    result = await invoke("delivery", "cancel", "loja1", *options, "--yes")
    assert server.requests[-1].json == asked
    assert result.stdout == "Cancelled 1,234 deliveries.\n"
    result = await invoke("delivery", "cancel", "loja1", "--yes", "--json")
    assert json.loads(result.stdout) == {"cancelled": 1234}


@pytest.mark.parametrize(
    ("count", "shown"), [(1, "1 pending delivery"), (100_000, "100,000 or more pending deliveries")]
)
async def test_the_question_of_cancel(count: int, shown: str, invoke: Invoke, server: Receiver) -> None:
    ended_early = {"complete": False} if count > 1 else {}
    server.default = says({"cancelled": 0, "matching": count} | ended_early)
    assert f"Cancel {shown} of 'loja1'?" in (await invoke("delivery", "cancel", "loja1")).stderr


async def test_nothing_to_cancel_asks_nothing(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"cancelled": 0, "matching": 0})
    result = await invoke("delivery", "cancel", "loja1")
    assert (result.exit_code, result.stdout) == (0, "Nothing that is pending matches.\n")
    assert len(server.requests) == 1


async def test_a_long_cancellation_is_followed(invoke: Invoke, server: Receiver) -> None:
    found = {"id": "job_1", "state": "done", "done": 200_000, "error": None}
    server.will(says({"cancelled": 7, "job": "job_1"}, 202), says(found))
    result = await invoke("delivery", "cancel", "loja1", "--yes")
    assert server.requests[-1].target == "/job/find/job_1"
    assert result.stdout == "Cancelled 200,000 deliveries.\n"


async def test_show_without_attempts_has_no_second_table(invoke: Invoke, server: Receiver) -> None:
    server.default = says(REPORT | {"attempts": []})
    assert "outcome" not in (await invoke("delivery", "show", "loja1", "dlv_7")).stdout


@pytest.mark.parametrize(
    ("args", "response"),
    [
        (["delivery", "list", "loja1"], {"deliveries": [SUMMARY], "cursor": None}),
        (["delivery", "dead", "loja1"], {"deliveries": [SUMMARY], "cursor": None}),
        (["delivery", "show", "loja1", "dlv_7"], REPORT),
        (["delivery", "resend", "loja1", "dlv_7"], SUMMARY),
    ],
)
async def test_json_is_the_response_itself(
    invoke: Invoke, server: Receiver, args: list[str], response: Any
) -> None:
    server.default = says(response)
    assert json.loads((await invoke(*args, "--json")).stdout) == response


@pytest.mark.parametrize(
    "args",
    [
        ["list", "x", "--state", "late"],
        ["list", "x", "--since", "later"],
        ["list", "x", "--limit", "0"],
        ["show", "x"],
        ["dead", "x", "--state", "pending"],
        ["resend", "x"],
        ["replay", "x"],
        ["replay", "x", "--since", "later"],
        ["replay", "x", "--since", "2h", "--state", "pending"],
    ],
)
async def test_usage_errors_exit_with_2(invoke: Invoke, server: Receiver, args: list[str]) -> None:
    assert (await invoke("delivery", *args)).exit_code == 2
    assert server.requests == []
