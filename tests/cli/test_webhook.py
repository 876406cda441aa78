import json
import re
from pathlib import Path
from typing import Any

import pytest

from hookgw.testing import Answer, Receiver
from tests.cli.conftest import Invoke, says
from tests.public.command import DEFAULT_SERVER
from tests.public.webhooks import MAX_CONCURRENCY

STORED = {
    "url": "https://crm.example/hook",
    "label": "default",
    "state": "active",
    "events": ["MESSAGES_UPSERT", "CALL"],
    "webhookByEvents": False,
    "stateReason": None,
    "headers": {},
    "retry": {"schedule": ["1s", "5s"], "maxAge": None, "disableAfter": None},
    "timeout": None,
    "warnings": [],
}


async def test_set_sends_only_the_given_options(invoke: Invoke, server: Receiver) -> None:
    server.will(says(None))
    server.default = says(STORED, 201)
    result = await invoke("webhook", "set", "loja1", "https://crm.example/hook")
    _, request = server.requests
    assert (request.method, request.target) == ("POST", "/webhook/set/loja1")
    assert request.json == {"url": "https://crm.example/hook", "enabled": True, "events": []}
    assert (result.exit_code, result.stderr) == (0, "")
    shown = [line.split(maxsplit=1) for line in result.stdout.splitlines()]
    assert ["URL", "https://crm.example/hook"] in [[name, value.strip()] for name, value in shown]
    assert "MESSAGES_UPSERT, CALL" in result.stdout
    assert "schedule: 1s, 5s" in result.stdout
    assert not {"headers", "maxAge", "timeout", "reason"} & set(result.stdout.split())


OPTIONS: list[tuple[list[str], dict[str, Any]]] = [
    (["--kind", "CALL", "--kind", "messages.upsert"], {"events": ["CALL", "messages.upsert"]}),
    (["--disabled"], {"enabled": False}),
    (["--by-events"], {"byEvents": True}),
    (["--no-by-events"], {"byEvents": False}),
    (["--base64"], {"base64": True}),
    (["--header", "X-A: b: c", "--header", "x-d:e"], {"headers": {"X-A": "b: c", "x-d": "e"}}),
    (["--secret", "whsec_AAAA"], {"secret": "whsec_AAAA"}),
    (["--signature", "v1a"], {"signature": "v1a"}),
    (["--ordering", "chat", "--concurrency", "4"], {"ordering": "chat", "concurrency": 4}),
    (["--ordering", "instance"], {"ordering": "instance"}),
    (["--timeout", "10s"], {"timeout": "10s"}),
    (["--rate", "20/s"], {"rate": "20/s"}),
    (["--rate", ""], {"rate": ""}),
    (["--retry", '{"schedule": ["1s"]}'], {"retry": {"schedule": ["1s"]}}),
    (["--plugins", '{"message_filters": {}}'], {"plugins": {"message_filters": {}}}),
    (["--no-filter"], {"filter": []}),
    *(
        (["--filter", text], {"filter": [dict(zip(("pointer", "op", "value"), wanted, strict=False))]})
        for text, wanted in (
            ("/data/key/fromMe=false", ("/data/key/fromMe", "equals", False)),
            ("/event!=CALL", ("/event", "notEquals", "CALL")),
            ("/data/a=", ("/data/a", "equals", "")),
            ("/data/a=5", ("/data/a", "equals", 5)),
            ('/data/a="5"', ("/data/a", "equals", "5")),
            ("/data/a=b=c!", ("/data/a", "equals", "b=c!")),
            ("/data/a^=5511", ("/data/a", "prefix", "5511")),
            ("/data/a!^=55", ("/data/a", "notPrefix", "55")),
            ('/data/a=["x", 1]', ("/data/a", "in", ["x", 1])),
            ('/data/a!=["x"]', ("/data/a", "notIn", ["x"])),
            ("/data/a", ("/data/a", "exists")),
            ("!/data/a", ("/data/a", "notExists")),
            ('{"pointer": "/data/a=b", "op": "exists"}', ("/data/a=b", "exists")),
            ('{"pointer": "/data/a>b", "op": "exists"}', ("/data/a>b", "exists")),
            ('/data/a="=5"', ("/data/a", "equals", "=5")),
            ("/data/a~1b:c=5", ("/data/a~1b:c", "equals", 5)),
        )
    ),
]


@pytest.mark.parametrize(("options", "fields"), OPTIONS)
async def test_each_option_of_set_is_a_field(
    invoke: Invoke, server: Receiver, options: list[str], fields: dict[str, Any]
) -> None:
    server.default = says(STORED, 201)
    result = await invoke("webhook", "set", "loja1", "https://x", *options)
    assert result.exit_code == 0, result.output
    assert server.requests[1].json == {"url": "https://x", "enabled": True, "events": []} | fields


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        *(case for case in OPTIONS if case[0] != ["--disabled"]),
        (["--disabled"], {"enabled": False}),
        (["--enabled"], {"enabled": True}),
        (["--url", "https://x"], {"url": "https://x"}),
        (["--all-kinds"], {"events": []}),
    ],
)
async def test_each_option_of_update_is_a_field_and_no_other_is_sent(
    invoke: Invoke, server: Receiver, options: list[str], fields: dict[str, Any]
) -> None:
    server.default = says(STORED)
    result = await invoke("webhook", "update", "loja1", *options)
    assert result.exit_code == 0, result.output
    (request,) = server.requests
    assert (request.method, request.json) == ("PATCH", fields)


async def test_the_help_of_update_shows_no_defaults_because_what_is_left_out_stays(invoke: Invoke) -> None:
    shown = {
        name: " ".join((await invoke("webhook", name, "--help")).stdout.split()) for name in ("set", "update")
    }
    for default in ("[default: generated]", "[default: v1]", "[default: url]"):
        assert default in shown["set"]
        assert default not in shown["update"]
    # Of its registration and of the gateway, which are not fields.
    assert set(re.findall(r"\[default: (.*?)\]", shown["update"])) == {"default", DEFAULT_SERVER}


async def test_the_help_has_the_most_that_the_api_allows(invoke: Invoke) -> None:
    for name in ("set", "update"):
        assert f"[1<=x<={MAX_CONCURRENCY}]" in (await invoke("webhook", name, "--help")).stdout
    assert "[1<=x<=1000]" in (await invoke("webhook", "list", "--help")).stdout


@pytest.mark.parametrize(("command", "enabled"), [("enable", True), ("disable", False)])
async def test_enable_and_disable_change_nothing_else(
    invoke: Invoke, server: Receiver, command: str, enabled: bool
) -> None:
    server.default = says(STORED)
    result = await invoke("webhook", command, "loja1", "--json")
    assert json.loads(result.stdout) == STORED
    (request,) = server.requests
    assert (request.method, request.json) == ("PATCH", {"enabled": enabled})


async def test_set_says_what_it_replaces(invoke: Invoke, server: Receiver) -> None:
    kinds = ["MESSAGES_UPSERT", "CALL", "QRCODE_UPDATED", "CONNECTION_UPDATE"]
    server.will(says(STORED | {"url": "https://old.example/", "events": ["CALL"], "state": "disabled"}))
    server.default = says(STORED | {"events": kinds}, 201)
    result = await invoke("webhook", "set", "loja1", "https://crm.example/hook", "--label", "crm")
    assert result.stdout.splitlines()[:3] == [
        "Replaced the URL: https://old.example/ -> https://crm.example/hook",
        "Replaced the state: disabled -> active",
        "Replaced the events: CALL -> 4 kinds",
    ]
    assert [(r.method, r.target) for r in server.requests] == [
        ("GET", "/webhook/find/loja1/crm"),
        ("POST", "/webhook/set/loja1/crm"),
    ]


@pytest.mark.parametrize("former", [says(None), says(STORED), says({"response": {"message": ["No."]}}, 404)])
async def test_set_says_nothing_if_it_replaces_nothing(
    invoke: Invoke, server: Receiver, former: Answer
) -> None:
    server.will(former)
    server.default = says(STORED, 201)
    result = await invoke("webhook", "set", "loja1", "https://crm.example/hook")
    assert result.exit_code == 0
    assert "Replaced" not in result.output


async def test_set_changes_nothing_while_the_gateway_is_unavailable(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"response": {"message": ["Not now."]}}, 503)
    result = await invoke("webhook", "set", "loja1", "https://crm.example/hook")
    assert (result.exit_code, len(server.requests)) == (1, 1)


LISTED = {
    "registrations": [
        STORED | {"instance": "*", "label": "audit", "source": "configuration"},
        STORED | {"instance": "loja1", "events": ["A", "B", "C", "D"]},
    ],
    "cursor": "bG9qYTE",
}


async def test_list_shows_a_line_for_each_registration(invoke: Invoke, server: Receiver) -> None:
    server.default = says(LISTED)
    result = await invoke("webhook", "list", "--limit", "2")
    (request,) = server.requests
    assert (request.method, request.target) == ("GET", "/webhook/list?limit=2")
    assert [line.split()[:3] for line in result.stdout.splitlines()[-2:]] == [
        ["*", "audit", "active"],
        ["loja1", "default", "active"],
    ]
    assert "MESSAGES_UPSERT, CALL" in result.stdout
    assert "4 kinds" in result.stdout
    assert "--cursor bG9qYTE" in result.stderr


async def test_list_asks_for_tags(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"registrations": [], "cursor": None})
    await invoke("webhook", "list", "--tag", "tenant=acme", "--tag", "plan=gold")
    assert server.requests[0].target == "/webhook/list?tag=tenant%3Dacme&tag=plan%3Dgold"
    refused = await invoke("webhook", "list", "loja1", "--tag", "tenant=acme")
    assert (refused.exit_code, len(server.requests)) == (2, 1)
    server.default = says([])
    await invoke("lane", "list", "--tag", "tenant=acme")
    assert server.requests[1].target == "/lane/list?tag=tenant%3Dacme"


async def test_the_list_of_one_instance_has_no_limit(invoke: Invoke, server: Receiver) -> None:
    result = await invoke("webhook", "list", "loja1", "--limit", "2")
    assert result.exit_code == 2
    assert "Leave it out if you name an instance" in result.stderr
    assert not server.requests


async def test_the_list_of_one_instance_goes_on_with_a_cursor(invoke: Invoke, server: Receiver) -> None:
    server.default = says(LISTED | {"cursor": None})
    result = await invoke("webhook", "list", "loja1", "--cursor", "abc")
    assert result.exit_code == 0
    assert server.requests[0].target == "/webhook/list/loja1?cursor=abc"


async def test_list_of_an_instance(invoke: Invoke, server: Receiver) -> None:
    server.default = says(LISTED | {"cursor": None})
    result = await invoke("webhook", "list", "loja1", "--json")
    assert server.requests[0].target == "/webhook/list/loja1"
    assert json.loads(result.stdout) == LISTED | {"cursor": None}
    assert (await invoke("webhook", "list", "loja1")).stderr == ""


@pytest.mark.parametrize(
    ("command", "method", "target"),
    [
        (["set", "loja1", "https://x"], "POST", "/webhook/set/loja1"),
        (["update", "loja1", "--base64"], "PATCH", "/webhook/set/loja1"),
        (["enable", "loja1"], "PATCH", "/webhook/set/loja1"),
        (["disable", "loja1"], "PATCH", "/webhook/set/loja1"),
        (["find", "loja1"], "GET", "/webhook/find/loja1"),
        (["delete", "loja1"], "DELETE", "/webhook/delete/loja1"),
        (["test", "loja1"], "POST", "/webhook/test/loja1"),
        (["secret", "loja1"], "GET", "/webhook/secret/loja1"),
        (["public-key", "loja1"], "GET", "/webhook/publicKey/loja1"),
        (["rotate-secret", "loja1"], "POST", "/webhook/rotateSecret/loja1"),
        (["pause", "loja1"], "POST", "/webhook/pause/loja1"),
        (["resume", "loja1"], "POST", "/webhook/resume/loja1"),
    ],
)
@pytest.mark.parametrize("label", [None, "crm"])
async def test_each_command_has_its_path_with_and_without_a_label(
    invoke: Invoke, server: Receiver, command: list[str], method: str, target: str, label: str | None
) -> None:
    attempt = {"outcome": "delivered", "status": 200, "duration": 1.0, "error": None, "answer": ""}
    server.default = says(STORED | attempt | {"secret": "whsec_x"})
    result = await invoke("webhook", *command, *(["--label", label] if label else []))
    assert result.exit_code == 0, result.output
    request = server.requests[-1]  # set looks first at what it replaces
    assert (request.method, request.target) == (method, f"{target}/{label}" if label else target)


async def test_warnings_of_set_go_to_standard_error(invoke: Invoke, server: Receiver) -> None:
    server.default = says(STORED | {"warnings": ["webhook.colour is unknown"]}, 201)
    result = await invoke("webhook", "set", "loja1", "https://x")
    assert result.stderr == "Warning: webhook.colour is unknown\n"


async def test_a_filter_is_shown_in_words(invoke: Invoke, server: Receiver) -> None:
    conditions = [
        {"pointer": "/data/a", "op": "in", "value": ["x", 1]},
        {"pointer": "/sender", "op": "notExists"},
    ]
    server.default = says(STORED | {"filter": conditions})
    result = await invoke("webhook", "find", "loja1")
    assert '/data/a in ["x", 1]; /sender notExists' in result.stdout


async def test_find_without_a_registration_exits_with_1(invoke: Invoke, server: Receiver) -> None:
    server.default = says(None)
    result = await invoke("webhook", "find", "loja1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: No URL is registered for 'loja1'.\n"
    result = await invoke("webhook", "find", "loja1", "--json", "--label", "crm")
    assert (result.exit_code, result.stdout) == (1, "null\n")


@pytest.mark.parametrize("command", [["set", "loja1", "https://x"], ["find", "loja1"]])
async def test_json_is_the_stored_registration(invoke: Invoke, server: Receiver, command: list[str]) -> None:
    server.default = says(STORED)
    result = await invoke("webhook", *command, "--json")
    assert json.loads(result.stdout) == STORED


async def test_a_failed_test_exits_with_1(invoke: Invoke, server: Receiver) -> None:
    error = "The receiver answered 404."
    attempt = {"outcome": "failed", "status": 404, "duration": 4.9, "error": error, "answer": "no such hook"}
    server.default = says(attempt)
    result = await invoke("webhook", "test", "loja1")
    assert (result.exit_code, result.stderr) == (1, "Error: The receiver answered 404.\n")
    shown = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert shown == {
        "outcome": "failed",
        "status": "404",
        "duration": "4.9 ms",
        "error": error,
        "response": "no such hook",
    }
    server.default = says(attempt | {"error": None})
    result = await invoke("webhook", "test", "loja1", "--json")
    assert result.stderr == "Error: The event was not delivered (outcome: failed).\n"
    assert json.loads(result.stdout)["status"] == 404


@pytest.mark.parametrize("command", ["secret", "public-key", "rotate-secret"])
async def test_a_public_key_is_printed_alone(invoke: Invoke, server: Receiver, command: str) -> None:
    server.default = says({"publicKey": "whpk_abc"})
    assert (await invoke("webhook", command, "loja1")).stdout == "whpk_abc\n"


async def test_a_secret_is_printed_alone(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"secret": "whsec_abc"})
    assert (await invoke("webhook", "secret", "loja1")).stdout == "whsec_abc\n"
    assert json.loads((await invoke("webhook", "secret", "loja1", "--json")).stdout) == {
        "secret": "whsec_abc"
    }


async def test_rotation_accepts_a_grace_period(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"secret": "whsec_abc"})
    rotated = await invoke("webhook", "rotate-secret", "loja1", "--grace", "1h")
    assert rotated.stdout == "whsec_abc\n"
    await invoke("webhook", "rotate-secret", "loja1")
    assert [request.json for request in server.requests] == [{"grace": "1h"}, {}]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["secret", "loja1", "--grace", "1h"], "No such option"),
        (["set", "loja1"], "Missing argument 'URL'"),
        (["set", "loja1", "https://x", "--header", "no colon"], "Write NAME: VALUE"),
        (["set", "loja1", "https://x", "--header", ": empty"], "Write NAME: VALUE"),
        (["set", "loja1", "https://x", "--header", "a: 1", "--header", "a: 2"], "a is given twice; it takes"),
        (["set", "loja1", "https://x", "--ordering", "strict"], "'strict' is not one of"),
        (["set", "loja1", "https://x", "--concurrency", "0"], "0 is not in the range"),
        (["set", "loja1", "https://x", "--retry", "{"], "this is not JSON"),
        (["update", "loja1"], "at least one option"),
        (["update", "loja1", "--kind", "CALL", "--all-kinds"], "not both"),
        (["update", "loja1", "--filter", "/data/a", "--no-filter"], "not both"),
        *(
            (["set", "loja1", "https://x", "--filter", text], said)
            for text, said in (
                ("data/a=1", "is not a condition"),
                ("!/data/a=1", "is not a condition"),
                ("{", "is not a JSON object"),
                ('{"a":' + "[" * 50_000, "is not a JSON object"),
                ("", "is not a condition"),
                # As pointers, they would name fields that no event has: every event would be dropped.
                *(
                    (text, "The operators are =, !=, ^= (begins with) and !^=")
                    for text in (
                        *("/data/n>5", "/data/n<5", "/data/n>=5", "!/data/n>5", "/data/n<>5", "/data/n = 5"),
                        *(
                            "/data/n~=5",
                            "/data/n*=5",
                            "/data/n$=5",
                            "/data/n==5",
                            "/data/n!==5",
                            "/data/n=~5",
                        ),
                    )
                ),
            )
        ),
    ],
)
async def test_usage_errors_exit_with_2_and_send_nothing(
    invoke: Invoke, server: Receiver, args: list[str], said: str
) -> None:
    result = await invoke("webhook", *args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert server.requests == []


TLS = {"ca": "-----BEGIN CERTIFICATE-----\nca", "clientCertificate": "one", "clientKey": "********"}


@pytest.fixture
def pem(tmp_path: Path) -> str:
    (tmp_path / "client.pem").write_text("-----BEGIN CERTIFICATE-----\nnew")
    return str(tmp_path / "client.pem")


@pytest.mark.parametrize("command", ["set", "update"])
async def test_tls_options_read_files_and_keep_what_they_do_not_name(
    invoke: Invoke, server: Receiver, pem: str, command: str
) -> None:
    server.default = says(STORED | {"tls": TLS}, 201)
    url = ["https://x"] if command == "set" else []
    options = ["--tls-certificate", pem, "--tls-server-name", "receiver.internal", "--json"]
    result = await invoke("webhook", command, "loja1", *url, *options)
    assert result.exit_code == 0, result.output
    find, change = server.requests
    assert find.target == "/webhook/find/loja1"
    assert change.json["tls"] == {
        **TLS,
        "clientCertificate": "-----BEGIN CERTIFICATE-----\nnew",
        "serverName": "receiver.internal",
    }


async def test_tls_options_of_an_instance_that_does_not_exist_yet(
    invoke: Invoke, server: Receiver, pem: str
) -> None:
    server.will(says({"response": {"message": ["No such instance."]}}, 404))
    server.default = says(STORED, 201)
    options = ["--tls-certificate", pem, "--tls-key", "-", "--json"]
    result = await invoke("webhook", "set", "loja1", "https://x", *options, input="the key")
    assert result.exit_code == 0, result.output
    sent = server.requests[1].json["tls"]
    assert sent == {"clientCertificate": "-----BEGIN CERTIFICATE-----\nnew", "clientKey": "the key"}


async def test_no_tls_removes_it(invoke: Invoke, server: Receiver, pem: str) -> None:
    server.default = says(STORED)
    assert (await invoke("webhook", "update", "loja1", "--no-tls")).exit_code == 0
    (request,) = server.requests
    assert request.json == {"tls": {}}
    both = await invoke("webhook", "update", "loja1", "--no-tls", "--tls-ca", pem)
    assert both.exit_code == 2
    assert "Use --no-tls or the other --tls options, not both." in both.output


async def test_a_file_that_cannot_be_read_is_a_usage_error(invoke: Invoke) -> None:
    result = await invoke("webhook", "update", "loja1", "--tls-ca", "/nowhere/ca.pem")
    assert result.exit_code == 2
    assert "cannot read /nowhere/ca.pem: No such file or directory." in result.output


async def test_an_empty_file_removes_no_part_of_tls(invoke: Invoke, server: Receiver) -> None:
    for name in ("/dev/null", "-"):
        result = await invoke("webhook", "update", "loja1", "--tls-ca", name)
        assert (result.exit_code, server.requests) == (2, [])
        assert "is empty." in result.stderr


async def test_certificates_are_shown_in_one_word(invoke: Invoke, server: Receiver) -> None:
    server.default = says(STORED | {"tls": TLS | {"serverName": "receiver.internal"}})
    shown = (await invoke("webhook", "find", "loja1")).stdout
    assert "ca: PEM, clientCertificate: one, clientKey: ********, serverName: receiver.internal" in shown
    assert "BEGIN" not in shown


async def test_enable_says_what_was_missed(invoke: Invoke, server: Receiver) -> None:
    missed = {"count": 530, "since": "2026-11-20T12:00:00.000Z", "complete": True}
    server.default = says(STORED | {"missed": missed})
    result = await invoke("webhook", "enable", "loja1", "--label", "crm")
    [request] = server.requests
    assert (request.method, request.json) == ("PATCH", {"enabled": True})
    assert "It has missed 530 events since 2026-11-20T12:00:00.000Z. To send that now: " in result.stdout
    assert "hookgw webhook backfill loja1 --label crm --since 2026-11-20T12:00:00.000Z" in result.stdout


async def test_enable_with_a_backfill(invoke: Invoke, server: Receiver) -> None:
    missed = {"count": 2, "since": "2026-11-20T12:00:00.000Z", "complete": False}
    server.default = says(STORED | {"missed": missed})
    result = await invoke("webhook", "enable", "loja1", "--backfill")
    assert server.requests[0].json == {"enabled": True, "backfill": True}
    assert (
        "What it has missed (2 events or more since 2026-11-20T12:00:00.000Z) is sent first." in result.stdout
    )


async def test_enable_follows_the_job_of_a_backfill(invoke: Invoke, server: Receiver) -> None:
    server.will(says(STORED | {"job": "job_1", "missed": None}, 202))
    server.default = says({"id": "job_1", "state": "done", "done": 5, "total": None, "error": None})
    result = await invoke("webhook", "enable", "loja1", "--backfill")
    assert "Backfilled 5 events." in result.stdout
    assert server.requests[-1].target == "/job/find/job_1"


async def test_backfill(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"backfilled": 1}, 202)
    since = "2026-11-20T12:00:00.000Z"
    options = ("--kind", "CALL", "--filter", "/data/a=1", "--dead", "--until", "2026-11-21T00:00:00Z")
    result = await invoke("webhook", "backfill", "loja1", "--label", "crm", "--since", since, *options)
    [request] = server.requests
    assert (request.method, request.target) == ("POST", "/webhook/backfill/loja1/crm")
    assert request.json == {
        "since": since,
        "until": "2026-11-21T00:00:00.000Z",
        "events": ["CALL"],
        "filter": [{"pointer": "/data/a", "op": "equals", "value": 1}],
        "dead": True,
    }
    assert (result.exit_code, result.stdout) == (0, "Backfilled 1 event.\n")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"count": 0, "first": None, "last": None}, "It has missed nothing."),
        (
            {
                "count": 2,
                "first": {"id": "e1", "time": "2026-11-20T12:00:00.000Z"},
                "last": {"id": "e2", "time": "2026-11-20T12:09:00.000Z"},
            },
            "2 events would be sent: first e1, 2026-11-20T12:00:00.000Z last e2, 2026-11-20T12:09:00.000Z",
        ),
    ],
)
async def test_a_dry_run_of_a_backfill(
    invoke: Invoke, server: Receiver, found: dict[str, Any], expected: str
) -> None:
    server.default = says(found)
    result = await invoke("webhook", "backfill", "loja1", "--since", "2026-11-20T12:00:00Z", "--dry-run")
    assert server.requests[0].json == {"since": "2026-11-20T12:00:00.000Z", "dryRun": True}
    assert " ".join(result.stdout.split()) == expected


async def test_a_backfill_that_becomes_a_job_is_followed(invoke: Invoke, server: Receiver) -> None:
    server.will(says({"backfilled": 1, "job": "job_1"}, 202))
    server.default = says({"id": "job_1", "state": "done", "done": 7, "total": None, "error": None})
    result = await invoke("webhook", "backfill", "loja1", "--since", "2026-11-20T12:00:00Z", "--json")
    assert json.loads(result.stdout) == {"backfilled": 7}


async def test_a_backfill_is_cancelled(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"backfilled": 3})
    result = await invoke("webhook", "backfill", "loja1", "--cancel")
    [request] = server.requests
    assert (request.method, request.target) == ("DELETE", "/webhook/backfill/loja1")
    assert result.stdout == "Ended. 3 events had been backfilled.\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [((), "Say since when"), (("--cancel", "--dead"), "With --cancel"), (("--since", "soon"), "soon")],
)
async def test_a_backfill_needs_a_beginning(invoke: Invoke, options: tuple[str, ...], said: str) -> None:
    result = await invoke("webhook", "backfill", "loja1", *options)
    assert result.exit_code == 2
    assert said in result.stderr
