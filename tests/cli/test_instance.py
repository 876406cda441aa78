import json

import pytest

from hookgw.testing import Answer, Received, Receiver
from tests.cli.conftest import Invoke, says

LISTED = {
    "id": "u",
    "name": "loja1",
    "connectionStatus": "open",
    "connector": "simulator",
    "backlog": {"deliveries": 1200, "bytes": 34567},
    "instance": {"integration": "simulator"},
}


async def test_create_prints_the_key(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"instance": {"instanceName": "loja1"}, "hash": "the-key"}, 201)
    result = await invoke("instance", "create", "loja1")
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/instance/create")
    assert request.json == {"instanceName": "loja1"}
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["instance", "loja1"],
        ["key", "the-key"],
    ]


async def test_create_sends_the_given_options(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"hash": "the-key"}, 201)
    args = ("--integration", "simulator", "--token", "tok-12345", "--webhook", "https://x")
    result = await invoke("instance", "create", "loja1", *args, "--json")
    assert server.requests[0].json == {
        "instanceName": "loja1",
        "integration": "simulator",
        "token": "tok-12345",
        "webhook": {"url": "https://x"},
    }
    assert json.loads(result.stdout) == {"hash": "the-key"}


@pytest.mark.parametrize("place", ["webhook", None])
async def test_create_shows_warnings(place: str | None, invoke: Invoke, server: Receiver) -> None:
    warned = {"warnings": ["token: it is short."]}
    server.default = says({"hash": "the-key"} | ({place: warned} if place else warned), 201)
    assert (await invoke("instance", "create", "loja1")).stderr == "Warning: token: it is short.\n"


async def test_list_is_a_table(invoke: Invoke, server: Receiver) -> None:
    server.default = says([LISTED])
    result = await invoke("instance", "list")
    assert server.requests[0].target == "/instance/fetchInstances"
    assert result.stdout.splitlines()[-1].split() == ["loja1", "simulator", "open", "1,200", "34,567"]
    assert json.loads((await invoke("instance", "list", "--json")).stdout) == [LISTED]


@pytest.mark.parametrize(
    ("language", "count", "size"),
    [("pt", "1.200", "34.567"), ("es", "1200", "34.567"), ("fr", "1,200", "34,567")],
)
async def test_numbers_are_those_of_the_language(
    language: str, count: str, size: str, invoke: Invoke, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Portuguese, 1,200 is a number with a fraction."""
    monkeypatch.setenv("HOOKGW_LANG", language)
    server.default = says([LISTED])
    result = await invoke("instance", "list")
    assert result.stdout.splitlines()[-1].split()[-2:] == [count, size]


async def test_the_reason_of_a_closed_connection_is_shown(invoke: Invoke, server: Receiver) -> None:
    closed = {**LISTED, "connectionStatus": "close", "disconnectionReason": "The network refused."}
    server.default = says([closed])
    assert "The network refused." in " ".join((await invoke("instance", "list")).stdout.split())
    server.default = says({"instance": {"instanceName": "loja1", "state": "close", "reason": "It ended."}})
    result = await invoke("instance", "state", "loja1")
    assert (result.stdout, result.stderr) == ("close\n", "It ended.\n")


async def test_state_is_one_word(invoke: Invoke, server: Receiver) -> None:
    response = {"instance": {"instanceName": "loja1", "state": "close"}}
    server.default = says(response)
    assert (await invoke("instance", "state", "loja1")).stdout == "close\n"
    assert server.requests[0].target == "/instance/connectionState/loja1"
    assert json.loads((await invoke("instance", "state", "loja1", "--json")).stdout) == response


async def test_delete(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"status": "SUCCESS"})
    assert (await invoke("instance", "delete", "loja1")).stdout == "Deleted 'loja1'.\n"
    (request,) = server.requests
    assert (request.method, request.target) == ("DELETE", "/instance/delete/loja1")


INGEST_URL = "https://gw.example/ingest/loja1/t"


async def test_ingest_url(invoke: Invoke, server: Receiver) -> None:
    server.default = says([LISTED | {"ingestUrl": INGEST_URL}])
    result = await invoke("instance", "ingest-url", "loja1")
    assert server.requests[0].target == "/instance/fetchInstances?instanceName=loja1"
    assert (result.stdout, result.stderr) == (f"{INGEST_URL}\n", "")
    shown = await invoke("instance", "ingest-url", "loja1", "--json")
    assert json.loads(shown.stdout) == {"ingestUrl": INGEST_URL}


async def test_an_ingest_url_that_is_a_path(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"ingestUrl": "/ingest/loja1/t"})
    result = await invoke("instance", "ingest-url", "loja1", "--rotate")
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/instance/rotateIngest/loja1")
    assert result.stdout == "/ingest/loja1/t\n"
    assert "server.public_url" in result.stderr


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ([], "does not exist"),
        ([LISTED], "takes no requests"),
        ([LISTED | {"connector": None}], "The instance 'loja1' has no connector"),
    ],
)
async def test_no_ingest_url(listed: list[object], message: str, invoke: Invoke, server: Receiver) -> None:
    server.default = says(listed)
    result = await invoke("instance", "ingest-url", "loja1")
    assert result.exit_code == 1
    assert message in result.stderr


async def test_create_prints_the_ingest_url(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"hash": "the-key", "ingestUrl": INGEST_URL}, 201)
    result = await invoke("instance", "create", "loja1", "--integration", "simulator")
    assert result.stdout.splitlines()[-1].split() == ["ingest", "URL", INGEST_URL]


async def test_create_sends_options_of_the_connector(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"hash": "the-key"}, 201)
    options = ("-o", "user=bot", "-o", "pin=0123", "--option", "rate:=5", "-o", "a=b=c")
    await invoke("instance", "create", "loja1", "--integration", "matrix", *options)
    assert server.requests[0].json == {
        "instanceName": "loja1",
        "integration": "matrix",
        "user": "bot",
        "pin": "0123",
        "rate": 5,
        "a": "b=c",
    }


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("planted", "Write NAME=TEXT or NAME:=JSON."),
        ("=planted", "Write NAME=TEXT or NAME:=JSON."),
        ("password:=planted", "the value of password is not JSON."),
    ],
)
async def test_wrong_options_are_not_repeated(value: str, sentence: str, invoke: Invoke) -> None:
    result = await invoke("instance", "options", "loja1", "-o", value)
    assert result.exit_code == 2
    assert sentence in " ".join(result.stderr.split())
    assert "planted" not in result.stderr


@pytest.mark.parametrize(
    ("option", "place"),
    [
        ("webhook=hidden", "--webhook"),
        ("token=hidden", "--token"),
        ("integration=hidden", "--integration"),
        ("instanceName=hidden", "the argument INSTANCE"),
    ],
)
async def test_create_refuses_its_own_fields_as_options(
    option: str, place: str, invoke: Invoke, server: Receiver
) -> None:
    result = await invoke("instance", "create", "loja1", "-o", option)
    assert result.exit_code == 2
    name = option.partition("=")[0]
    assert f"{name} is not an option of a connector. Use {place} instead." in result.stderr
    assert "hidden" not in result.output
    assert server.requests == []


async def test_options_are_printed(invoke: Invoke, server: Receiver) -> None:
    found = {"options": {"server": "https://a", "password": "********", "rate": 5}, "optionsSchema": {}}
    server.default = says(found)
    result = await invoke("instance", "options", "loja1")
    request = server.requests[0]
    assert (request.method, request.target) == ("GET", "/instance/options/loja1")
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["server", "https://a"],
        ["password", "********"],
        ["rate", "5"],
    ]
    assert json.loads((await invoke("instance", "options", "loja1", "--json")).stdout) == found


@pytest.mark.parametrize("again", [("-o", "user=planted"), ("-o", "user:=1"), ("--unset", "user")])
async def test_an_option_has_one_value(invoke: Invoke, server: Receiver, again: tuple[str, str]) -> None:
    result = await invoke("instance", "options", "loja1", "-o", "user=planted", *again)
    assert result.exit_code == 2
    assert "user is given twice; it takes one value." in " ".join(result.stderr.split())
    assert "planted" not in result.stderr
    assert server.requests == []


async def test_options_are_changed(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"options": {}, "optionsSchema": None, "warnings": ["x is not an option."]})
    result = await invoke("instance", "options", "loja1", "-o", "user=bot", "--unset", "rate")
    request = server.requests[0]
    assert (request.method, request.target) == ("PATCH", "/instance/options/loja1")
    assert request.json == {"user": "bot", "rate": None}
    assert result.stderr == "Warning: x is not an option.\n"


async def test_a_secret_option_from_standard_input(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"options": {}, "optionsSchema": None, "warnings": []})
    await invoke("instance", "options", "loja1", "-o", "password=-", input="hunter2\n")
    assert server.requests[0].json == {"password": "hunter2"}


@pytest.mark.parametrize(
    ("command", "lacking", "given"),
    [
        (("instance", "options", "loja1", "-o", "user=-", "-o", "password=-"), "password", "bot\n"),
        (("instance", "create", "loja1", "--token", "-"), "token", ""),
        (("instance", "create", "loja1", "--token", "-"), "token", "\n"),
        (("webhook", "set", "loja1", "https://a.example/", "--secret", "-"), "secret", ""),
    ],
)
async def test_a_secret_that_standard_input_does_not_have(
    invoke: Invoke, server: Receiver, command: tuple[str, ...], lacking: str, given: str
) -> None:
    result = await invoke(*command, input=given)
    assert result.exit_code == 2
    assert f"standard input has no line for {lacking}." in result.stderr
    assert server.requests == []


@pytest.mark.parametrize("charset", ["utf-8", "cp1252"])
async def test_standard_input_is_utf_8_whatever_the_terminal_has(
    invoke: Invoke, server: Receiver, charset: str
) -> None:
    server.default = says({"settings": {"settings": {}}, "warnings": []})
    given = "São 日本\nfor the second\n".encode()
    args = ("instance", "settings", "loja1", "-o", "msgCall=-", "-o", "other=-")
    await invoke(*args, input=given, charset=charset)
    assert server.requests[0].json == {"msgCall": "São 日本", "other": "for the second"}


async def test_restart_prints_the_state(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"instance": {"instanceName": "loja1", "state": "open"}})
    result = await invoke("instance", "restart", "loja1")
    assert server.requests[0].target == "/instance/restart/loja1"
    assert result.stdout == "open\n"
    assert "instanceName" in (await invoke("instance", "restart", "loja1", "--json")).stdout


async def test_connect_prints_the_state_and_the_code(invoke: Invoke, server: Receiver) -> None:
    server.default = says(
        {"instance": {"instanceName": "loja1", "state": "connecting"}, "code": "2@abc", "pairingCode": "WZYE"}
    )
    result = await invoke("instance", "connect", "loja1")
    assert (server.requests[0].method, server.requests[0].target) == ("GET", "/instance/connect/loja1")
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["state", "connecting"],
        ["pairing", "code", "WZYE"],
        ["QR", "code", "(text)", "2@abc"],
    ]
    assert json.loads((await invoke("instance", "connect", "loja1", "--json")).stdout)["code"] == "2@abc"


async def test_logout(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"status": "SUCCESS", "error": False})
    assert (await invoke("instance", "logout", "loja1")).stdout == "Logged out 'loja1'.\n"
    assert (server.requests[0].method, server.requests[0].target) == ("DELETE", "/instance/logout/loja1")
    assert '"SUCCESS"' in (await invoke("instance", "logout", "loja1", "--json")).stdout


async def test_settings_are_printed_and_changed(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"rejectCall": False, "msgCall": "No"})
    shown = await invoke("instance", "settings", "loja1")
    assert [line.split() for line in shown.stdout.splitlines()] == [["rejectCall", "no"], ["msgCall", "No"]]
    server.default = says(
        {"settings": {"instanceName": "loja1", "settings": {"rejectCall": True}}, "warnings": ["Careful."]}
    )
    changed = await invoke(
        "instance", "settings", "loja1", "-o", "rejectCall:=true", "-o", "msgCall=No calls"
    )
    assert server.requests[-1].target == "/settings/set/loja1"
    assert server.requests[-1].json == {"rejectCall": True, "msgCall": "No calls"}
    assert changed.stdout.split() == ["rejectCall", "yes"]
    assert changed.stderr == "Warning: Careful.\n"
    assert "warnings" in (await invoke("instance", "settings", "loja1", "-o", "a=b", "--json")).stdout


async def test_a_token_from_standard_input(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"hash": "given-key"}, 201)
    assert (await invoke("instance", "create", "loja1", "--token", "-", input="given-key\n")).exit_code == 0
    assert server.requests[0].json == {"instanceName": "loja1", "token": "given-key"}


CLOSED = LISTED | {
    "name": "loja2",
    "connectionStatus": "close",
    "ownerJid": "5511987654321:12@s.whatsapp.net",
    "profileName": "Padaria Sol",
    "tags": {"tenant": "Bolt"},
    "disconnectionAt": "2026-11-20T12:00:00.000Z",
    "disconnectionReason": "Logged out at the phone.",
}


async def test_list_has_number_profile_since_when_and_why(invoke: Invoke, server: Receiver) -> None:
    server.default = says([LISTED, CLOSED])
    line = (await invoke("instance", "list")).stdout.splitlines()[-1]
    for text in ("5511987654321 ", "Padaria Sol", "2026-11-20T12:00:00.000Z", "Logged out at the phone."):
        assert text in line


async def test_tags_are_given_shown_and_replaced(invoke: Invoke, server: Receiver) -> None:
    server.default = says({"hash": "the-key"}, 201)
    await invoke("instance", "create", "loja1", "--tag", "tenant=acme", "--tag", "plan=gold")
    assert server.requests[-1].json == {
        "instanceName": "loja1",
        "tags": {"tenant": "acme", "plan": "gold"},
    }
    server.default = says([LISTED | {"tags": {"plan": "gold", "tenant": "acme"}}])
    assert "plan=gold tenant=acme" in (await invoke("instance", "list")).stdout
    shown = await invoke("instance", "tags", "loja1")
    assert [line.split() for line in shown.stdout.splitlines()] == [["plan", "gold"], ["tenant", "acme"]]
    server.default = says({"instanceName": "loja1", "tags": {"tenant": "bolt"}})
    changed = await invoke("instance", "tags", "loja1", "--tag", "tenant=bolt", "--json")
    assert (server.requests[-1].method, server.requests[-1].target) == ("PATCH", "/instance/tags/loja1")
    assert server.requests[-1].json == {"tags": {"tenant": "bolt"}}
    assert json.loads(changed.stdout) == {"tenant": "bolt"}
    server.default = says({"instanceName": "loja1", "tags": {}})
    assert (await invoke("instance", "tags", "loja1", "--none")).stderr == "It has no tags.\n"
    assert server.requests[-1].json == {"tags": {}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create", "loja1", "--tag", "acme"), "'acme' must be NAME=VALUE, as in tenant=acme"),
        (("list", "--tag", "a b=c"), "'a b=c' must be NAME=VALUE"),
        (("tags", "loja1", "--tag", "a=b", "--none"), "Use --tag or --none, not both."),
        (("tags", "loja1", "--tag", "a=b", "--tag", "a=c"), "--tag a has two values: b and c."),
        (("connect", "loja1", "--tag", "a=b"), "Name instances, or choose them"),
    ],
)
async def test_wrong_tags_are_not_sent(
    invoke: Invoke, server: Receiver, arguments: tuple[str, ...], message: str
) -> None:
    refused = await invoke("instance", *arguments)
    assert refused.exit_code == 2
    assert message in " ".join(refused.stderr.split())
    assert not server.requests


async def test_list_and_connect_ask_for_tags_and_a_text(invoke: Invoke, server: Receiver) -> None:
    server.default = says([])
    for command in ("list", "connect"):
        await invoke("instance", command, "--tag", "tenant=acme", "--tag", "plan=gold")
        target = "/instance/fetchInstances?tag=tenant%3Dacme&tag=plan%3Dgold"
        assert server.requests[-1].target == target
        await invoke("instance", command, "--search", "5511")
        assert server.requests[-1].target == "/instance/fetchInstances?search=5511"


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--state", "close"), ["loja2"]),
        (("--state", "open"), ["loja1"]),
    ],
)
async def test_list_chooses(
    invoke: Invoke, server: Receiver, options: tuple[str, ...], names: list[str]
) -> None:
    server.default = says([LISTED, CLOSED])
    found = json.loads((await invoke("instance", "list", "--json", *options)).stdout)
    assert [one["name"] for one in found] == names


async def test_connect_of_those_that_are_closed(invoke: Invoke, server: Receiver) -> None:
    third = CLOSED | {"name": "loja3"}
    bare = CLOSED | {"name": "events-only", "connector": None}

    async def respond(request: Received) -> Answer:
        if request.target.endswith("/loja2"):
            state = {"instance": {"instanceName": "loja2", "state": "connecting"}, "code": "2@abc"}
            return says(state)
        if request.target.endswith("/loja3"):
            return says({"response": {"message": ["The network refused."]}}, 502)
        return says([LISTED, CLOSED, third, bare])

    server.default = respond
    result = await invoke("instance", "connect", "--state", "close")
    assert [one.target for one in server.requests] == [
        "/instance/fetchInstances",
        "/instance/connect/loja2",
        "/instance/connect/loja3",
    ]
    assert "loja2 (1 of 2)" in result.stdout
    assert "2@abc" in result.stdout
    assert result.exit_code == 1
    assert result.stderr == "loja3: The network refused.\nError: 1 instance of 2 could not be connected.\n"
    found = json.loads((await invoke("instance", "connect", "loja2", "loja3", "--json")).stdout)
    assert [one["instance"]["instanceName"] for one in found] == ["loja2", "loja3"]
    assert found[1]["error"] == ["The network refused."]


async def test_the_next_code_follows_once_one_is_scanned(
    invoke: Invoke, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    async def respond(request: Received) -> Answer:
        name = request.target.rpartition("/")[2]
        if "/connectionState/" in request.target:
            looks.append(name)
            return says(
                {"instance": {"instanceName": name, "state": "open" if len(looks) > 1 else "connecting"}}
            )
        return says({"instance": {"instanceName": name, "state": "connecting"}, "code": f"2@{len(looks)}"})

    server.default = respond
    monkeypatch.setattr("hookgw.instances.commands.connect.LOOK_EVERY", 0.0)
    monkeypatch.setattr("hookgw.instances.commands.connect.shows_codes", lambda: True)
    result = await invoke("instance", "connect", "loja1", "loja2")
    assert (result.exit_code, result.stderr) == (0, "")
    assert looks == ["loja1", "loja1", "loja2"]
    # The code of the first one was replaced before it was scanned.
    assert [code in result.stdout for code in ("2@0", "2@1", "2@2")] == [True, True, True]
    assert result.stdout.count("Connected.") == 2
    assert "█" in result.stdout


@pytest.mark.parametrize("args", [(), ("loja1", "--state", "close")])
async def test_connect_needs_a_name_or_a_choice(
    invoke: Invoke, server: Receiver, args: tuple[str, ...]
) -> None:
    assert (await invoke("instance", "connect", *args)).exit_code == 2
    assert not server.requests
