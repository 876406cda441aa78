"""``hookgw import evolution``, from a scripted Evolution API to a real gateway."""

import json
import resource
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click.testing
import httpx
import pytest
import trio

from hookgw.testing import Receiver, answer, open_receiver, reset
from tests.cli.conftest import Invoke, says
from tests.networks import evolution as networks
from tests.public.app import open_gateway
from tests.public.command import Failed
from tests.public.config import (
    AuthSettings,
    InstancesSettings,
    PluginsSettings,
    ServerSettings,
    Settings,
    StorageSettings,
)
from tests.public.instances import Action, SourceInstance, plan_import, write_file
from tests.public.kernel import Size
from tests.public.web import serve
from tests.support.application import create_app
from tests.support.evolution import KEY, Evolution

OWN_KEY = "the-global-key-of-hookgw"
TOKEN = "B6D711FCDE4D4FD5936544120E713976"
SECRETS = (TOKEN, KEY, "planted")
HEADERS = {"authorization": "Bearer planted-token", "jwt_key": "planted-jwt-key"}


@dataclass
class World:
    """Both gateways, and the command between them."""

    evolution: Evolution
    receiver: Receiver
    hookgw: httpx.AsyncClient
    invoke: Invoke

    async def run(self, *args: str, code: int = 0, **options: Any) -> click.testing.Result:
        """Import from the scripted server."""
        result = await self.invoke("import", "evolution", "--from", self.receiver.url, *args, **options)
        assert result.exit_code == code, result.output
        return result

    async def get(self, path: str, key: str = OWN_KEY) -> Any:
        response = await self.hookgw.get(path, headers={"apikey": key})
        assert response.status_code == 200, response.text
        return response.json()


@pytest.fixture
async def world(
    tmp_path: Path, nursery: trio.Nursery, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    settings = Settings(
        server=ServerSettings(bind=("127.0.0.1:0",)),
        auth=AuthSettings(global_key=OWN_KEY),
        storage=StorageSettings(path=str(tmp_path / "hookgw.db"), min_free=Size(0)),
    )
    evolution = Evolution()
    async with (
        open_gateway(settings, base=tmp_path) as gateway,
        open_receiver(default=evolution.respond) as receiver,
    ):
        (url,) = await nursery.start(serve, create_app(gateway), settings.server)
        monkeypatch.setenv("HOOKGW_URL", url)
        monkeypatch.setenv("HOOKGW_KEY", OWN_KEY)
        monkeypatch.setenv("EVOLUTION_API_KEY", KEY)
        async with httpx.AsyncClient(base_url=url, trust_env=False, verify=False, timeout=30) as client:
            yield World(evolution, receiver, client, invoke)


async def test_without_apply_it_only_reads(world: World) -> None:
    world.evolution.add("loja1", token=TOKEN, webhook={"headers": HEADERS})
    result = await world.run()
    assert result.stdout.startswith("loja1: create\n")
    assert "jwt_key is kept" in result.stdout
    counted, explained, advice = result.stderr.splitlines()
    assert counted == "1 instance: 1 create."
    assert explained.startswith("With the connector evolution, an account stays in Evolution API")
    assert advice == "Nothing was changed. Add --apply to carry it out."
    assert not [secret for secret in SECRETS if secret in result.output]
    assert await world.get("/instance/fetchInstances") == []
    assert {request.method for request in world.receiver.requests} == {"GET"}


async def test_a_terminal_shows_how_much_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        world.evolution.add(f"loja{number}", token=None)
    assert "Reading" not in (await world.run()).stderr
    monkeypatch.setenv("FORCE_COLOR", "1")
    reading, _, rest = (await world.run("--apply")).stderr.rpartition("100%")
    assert "Reading" in reading
    assert "3 instances: 3 create." in rest
    # What hookgw has is read, too, to be compared.
    reading, _, _ = (await world.run()).stderr.rpartition("100%")
    assert reading.find("Reading") < reading.rfind("Comparing")


async def test_what_is_left_out_comes_last_and_what_all_need_is_said_once(world: World) -> None:
    for name in ("Loja 1", "loja2", "loja3"):
        world.evolution.add(name, token=None)
    result = await world.run()
    heads = [line for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert heads == ["loja2: create", "loja3: create", "Loja 1: leave out"]
    assert result.output.count("hookgw instance connect") == 1


async def test_apply_keeps_keys_headers_passwords_and_settings(world: World) -> None:
    webhook = {
        "url": "https://user:planted-pass@crm.example/hook",
        "headers": HEADERS,
        "webhookByEvents": True,
        "webhookBase64": True,
    }
    settings = {"rejectCall": True, "msgCall": "Only texts", "wavoipToken": "planted-wavoip"}
    world.evolution.add("loja1", token=TOKEN, webhook=webhook, settings=settings)
    result = await world.run("--apply")
    assert not [secret for secret in SECRETS if secret in result.output]
    # The token is a key of the instance, and of nothing else.
    (shown,) = await world.get("/instance/fetchInstances", TOKEN)
    assert (shown["name"], shown["integration"]) == ("loja1", "WHATSAPP-BAILEYS")
    stored = await world.get("/webhook/find/loja1", TOKEN)
    assert stored["url"] == "https://********@crm.example/hook"
    assert set(stored["headers"]) == set(HEADERS)
    assert stored["events"] == ["MESSAGES_UPSERT", "CONNECTION_UPDATE"]
    assert (stored["enabled"], stored["webhookByEvents"], stored["webhookBase64"]) == (True, True, True)
    assert stored["timeout"] == "1m"  # as Evolution API's container waits
    assert stored["plugins"] == {"evolution_envelope": {"apikey": "********"}}
    found = await world.get("/settings/find/loja1", TOKEN)
    assert (found["rejectCall"], found["msgCall"], found["wavoipToken"]) == (True, "Only texts", "********")

    again = await world.run("--apply")
    assert again.stdout.startswith("loja1: unchanged\n")
    assert again.stderr == "1 instance: 1 unchanged.\n"


async def test_what_hookgw_has_stays_unless_it_is_to_be_replaced(world: World) -> None:
    world.evolution.add("loja1", token=TOKEN, webhook={}, settings={"rejectCall": True})
    await world.run("--apply")
    world.evolution.webhooks["loja1"]["url"] = "https://other.example/hook"
    world.evolution.webhooks["loja1"]["enabled"] = False
    world.evolution.webhooks["loja1"]["webhookByEvents"] = True
    world.evolution.webhooks["loja1"]["headers"] = {"x-new": "1"}
    world.evolution.settings["loja1"]["rejectCall"] = False
    before = await world.get("/webhook/find/loja1")
    result = await world.run("--apply", code=1)
    assert "Conflict: settings: rejectCall (true in hookgw, false in Evolution API)" in result.stdout
    assert "its URL is https://crm.example/hook in hookgw, https://other.example/hook" in result.stdout
    for words in ("it is enabled in hookgw", "byEvents is false in hookgw", "it has other headers"):
        assert words in result.stdout
    assert "--replace" in result.stderr
    assert await world.get("/webhook/find/loja1") == before

    result = await world.run("--apply", "--replace")
    assert "loja1: change" in result.stdout
    stored = await world.get("/webhook/find/loja1")
    assert (stored["url"], stored["enabled"]) == ("https://other.example/hook", False)
    assert (await world.get("/settings/find/loja1"))["rejectCall"] is False
    assert (await world.run()).stdout.startswith("loja1: unchanged")


async def test_a_missing_webhook_is_added_to_an_instance_of_hookgw(world: World) -> None:
    made = await world.hookgw.post(
        "/instance/create", json={"instanceName": "loja1"}, headers={"apikey": OWN_KEY}
    )
    assert made.status_code == 201
    world.evolution.add("loja1", token=TOKEN, webhook={})
    result = await world.run("--apply", code=1)
    assert "Conflict: key: hookgw has an instance of this name, and the token is not one of its keys" in (
        result.stdout
    )
    assert "its token is kept" not in result.stdout
    stored = await world.get("/webhook/find/loja1")
    assert (stored["url"], stored["plugins"]) == ("https://crm.example/hook", {"evolution_envelope": {}})


async def test_a_token_that_no_header_can_have_stops_nothing(world: World) -> None:
    for number, token in enumerate(
        (" odd-token-of-16-a", "odd-token-of-16-b ", "odd\ttoken-of-16", "ødd-token-of-16")
    ):
        body = {"instanceName": f"loja{number}"}
        await world.hookgw.post("/instance/create", json=body, headers={"apikey": OWN_KEY})
        world.evolution.add(f"loja{number}", token=token)
    result = await world.run()
    assert {line[:5] for line in result.stdout.splitlines() if line.startswith("loja")} == {
        "loja0",
        "loja1",
        "loja2",
        "loja3",
    }


async def test_only_a_few_wrong_tokens_are_tried(world: World) -> None:
    """hookgw locks out an address that shows many wrong keys."""
    for number in range(12):
        body = {"instanceName": f"loja{number}"}
        await world.hookgw.post("/instance/create", json=body, headers={"apikey": OWN_KEY})
        world.evolution.add(f"loja{number}", token=f"{TOKEN}-{number}")
    result = await world.run()
    assert result.stdout.count("is not one of its keys") == 10
    assert result.stdout.count("was not tried") == 2


async def test_tokens_that_hookgw_has_replaced_are_not_tried(world: World) -> None:
    for number in range(12):
        world.evolution.add(f"loja{number:02}", token=f"odd-{number:02}")
    world.evolution.add("loja12", token=TOKEN)
    for number in range(13, 25):
        world.evolution.add(f"loja{number}", token=TOKEN)
    world.evolution.add("loja25", token=f"{TOKEN}-25")
    await world.run("--apply")
    result = await world.run("--apply")
    assert "Conflict" not in result.stdout
    assert result.stdout.count(": unchanged") == 26


async def test_names_and_tokens_that_hookgw_cannot_have(world: World) -> None:
    world.evolution.add("Loja São Paulo", token=TOKEN)
    world.evolution.add("short", token="1234567")
    world.evolution.add("hidden", token=None)
    world.evolution.add("twin", token=TOKEN)
    result = await world.run("--json", "--apply", "--rename", "short=short 2", code=1)
    assert "2 instances left out" in result.stderr
    for name in ("hidden", "twin"):
        await world.hookgw.delete(f"/instance/delete/{name}", headers={"apikey": OWN_KEY})
    result = await world.run("--json")
    plan = {one["source"]: one for one in json.loads(result.stdout)}
    assert plan["Loja São Paulo"]["action"] == "leave out"
    assert "--rename 'Loja São Paulo=Loja-Sao-Paulo'" in plan["Loja São Paulo"]["notes"][0]
    assert "does not have 8 to 256 printable ASCII characters" in " ".join(plan["short"]["notes"])
    assert "does not show its token" in " ".join(plan["hidden"]["notes"])

    result = await world.run("--apply", "--json", "--rename", "Loja São Paulo=loja-sp")
    made = {one["name"]: one for one in json.loads(result.stdout)}
    assert {name: "key" in one for name, one in made.items()} == {
        "loja-sp": False,
        "short": True,
        "hidden": True,
        "twin": True,
    }
    await world.get("/webhook/find/loja-sp", TOKEN)
    await world.get("/webhook/find/twin", made["twin"]["key"])
    again = json.loads((await world.run("--json", "--rename", "Loja São Paulo=loja-sp")).stdout)
    # The twin's own key is unknown to Evolution API, and its token is another instance's.
    assert [one["action"] for one in again] == ["unchanged"] * 4
    world.receiver.will(reset())  # the connection was idle for too long
    result = await world.run("--rename", "short=hidden")
    assert "Another instance is imported as hidden" in result.stdout


async def test_one_refusal_does_not_stop_the_others(world: World) -> None:
    headers = {"x-a": "********"}  # a mask, of no stored value
    world.evolution.add("loja1", token=TOKEN, webhook={"headers": headers})
    world.evolution.add("loja2", token="another-token-of-16")
    result = await world.run("--apply", code=1)
    assert "Failed: " in result.stdout
    assert "1 of them failed" in result.stderr
    assert [one["name"] for one in await world.get("/instance/fetchInstances")] == ["loja2"]


async def test_keys_that_were_made_are_shown_if_hookgw_goes_away(world: World, server: Receiver) -> None:
    for name in ("loja1", "loja2", "loja3"):
        world.evolution.add(name, token=None)
    made = says({"hash": "the-key-of-it"}, 201)
    server.will(says([]), says([]), says([]), made, made, says({}, 503))
    result = await world.run("--apply", "--json", "--server", server.url, code=1)
    assert [(one["name"], one["key"]) for one in json.loads(result.stdout)] == [
        ("loja1", "the-key-of-it"),
        ("loja2", "the-key-of-it"),
    ]


def test_half_an_export_is_no_file(tmp_path: Path) -> None:
    file = tmp_path / "evolution.json"
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, former[1]))
    try:
        with pytest.raises(Failed, match=r"evolution\.json cannot be written: File too large\."):
            write_file(file, [SourceInstance({"name": "loja1"})])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)
    assert not file.exists()


def test_an_export_to_a_missing_folder(tmp_path: Path) -> None:
    folder = tmp_path / "nowhere"
    with pytest.raises(Failed, match=f"cannot be written: there is no folder {folder}; make it first"):
        write_file(folder / "evolution.json", [SourceInstance({"name": "loja1"})])


async def test_an_export_is_a_source(world: World, tmp_path: Path) -> None:
    world.evolution.add("loja1", token=TOKEN, webhook={})
    file = tmp_path / "evolution.json"
    result = await world.run("--export", str(file))
    assert "Wrote 1 instance to" in result.stdout
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "exists already" in (await world.run("--export", str(file), code=1)).stderr
    requests = len(world.receiver.requests)
    result = await world.invoke("import", "evolution", "--from", str(file), "--apply")
    assert result.exit_code == 0, result.output
    assert len(world.receiver.requests) == requests
    await world.get("/webhook/find/loja1", TOKEN)


async def test_the_key_comes_from_a_file_standard_input_or_the_environment(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVOLUTION_API_KEY")
    assert "is missing" in (await world.run(code=1)).stderr
    (tmp_path / "key").write_text(f"{KEY}\n")
    await world.run("--from-key-file", str(tmp_path / "key"))
    await world.run("--from-key", "-", input=f"{KEY}\n")
    assert "takes no key" in (await world.run("--from-key", KEY, code=2)).stderr
    assert "either" in (await world.run("--from-key", "-", "--from-key-file", "key", code=2)).stderr
    assert "cannot be read" in (await world.run("--from-key-file", "nothing", code=1)).stderr
    assert "refuses the key" in (await world.run("--from-key", "-", input="wrong\n", code=1)).stderr


async def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    file.write_text("hidden\nsecond")
    refused = [
        await world.run("--from-key-file", str(file), code=1),
        await world.run("--from-key", "-", input="hidden-é\n", code=1),
    ]
    monkeypatch.setenv("EVOLUTION_API_KEY", "hidden-é")
    refused.append(await world.run(code=1))
    for result, source in zip(refused, (file, "standard input", "EVOLUTION_API_KEY"), strict=True):
        assert f"The key from {source} is not valid" in result.stderr
        assert "hidden" not in result.output
    file.write_text(f"{KEY}\n", "utf-8-sig")
    await world.run("--from-key-file", str(file))


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (says({"a": 1}), "returns no list of objects"),
        (says([{"instance": {"instanceName": "old"}}]), "is not an Evolution API 2"),
        (answer(200, b"<html>"), "is not JSON"),
        (says({}, 500), "responds 500"),
    ],
)
async def test_a_server_that_is_no_evolution_api(response: Any, said: str, world: World) -> None:
    world.receiver.will(response)
    assert said in (await world.run(code=1)).stderr


async def test_no_server_and_no_file(world: World, tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]")
    for source, said in (
        ("http://127.0.0.1:1", "cannot be read"),
        ("nothing.json", "cannot be read"),
        ("list.json", "is no export"),
    ):
        result = await world.invoke("import", "evolution", "--from", source)
        assert result.exit_code == 1
        assert said in result.stderr
    result = await world.run("--rename", "loja1", code=2)
    assert "write OLD=NEW" in result.stderr
    result = await world.run("--rename", "loja1=a", "--rename", "loja1=b", code=2)
    assert "loja1 is given twice" in result.stderr


# The plan alone.

KINDS = frozenset({"MESSAGES_UPSERT", "CONNECTION_UPDATE", "GROUPS_UPDATE"})


def planned(webhook: dict[str, Any] | None = None, **options: Any) -> Any:
    found = SourceInstance({"name": "loja1", "token": TOKEN, **options.pop("instance", {})}, webhook, {})
    (one,) = plan_import([found], {}, KINDS, names={}, **options)
    assert one.action is Action.CREATE
    return one


HOOK = {"url": "https://crm.example/hook", "enabled": True, "events": ["MESSAGES_UPSERT"]}


@pytest.mark.parametrize(
    ("change", "expected", "note"),
    [
        ({"events": ["messages.upsert", "NEW_KIND"]}, {"events": ["MESSAGES_UPSERT"]}, "NEW_KIND left out"),
        ({"events": ["GROUP_UPDATE"]}, {"events": ["GROUPS_UPDATE"]}, "1 kinds"),
        ({"events": []}, {"enabled": False}, "because it has no events"),
        ({"events": None}, {"enabled": False}, "because it has no events"),
        ({"enabled": None}, {"enabled": False}, "disabled in Evolution API"),
        ({"url": "vazio"}, {"enabled": False}, "cannot call its URL"),
        ({"headers": {"Host": "a", "x-n": 5}}, {"headers": {"x-n": "5"}}, "Host cannot be set"),
        ({"headers": {"X-Attempt": "a", "x-n": "5"}}, {"headers": {"x-n": "5"}}, "X-Attempt cannot be set"),
        ({"headers": {"x-n": None, "x-f": False, "x-t": True}}, {"headers": {"x-t": "true"}}, "1 headers"),
        ({"headers": {"X-N": "a", "x-n": "b"}}, {"headers": {"x-n": "b"}}, "1 headers"),
        ({"headers": None}, {"headers": {}}, "0 headers"),
        (
            {"headers": {f"x-{n}": "v" for n in range(33)}},
            {"headers": {f"x-{n}": "v" for n in range(32)}},
            "header x-32 left out: headers has 33 headers; at most 32 are allowed",
        ),
        (
            {"headers": {"x-a": "v" * 4000, "x-b": "v" * 100, "x-c": "v"}},
            {"headers": {"x-a": "v" * 4000, "x-c": "v"}},
            "at most 4,096 are allowed",
        ),
    ],
)
def test_webhooks_that_hookgw_cannot_have_as_they_are(
    change: dict[str, Any], expected: dict[str, Any], note: str
) -> None:
    one = planned(HOOK | change)
    assert {name: one.webhook[name] for name in expected} == expected
    assert note in " ".join(one.notes)


def test_a_url_that_hookgw_cannot_keep_is_left_out() -> None:
    url = "https://crm.example/".ljust(2048, "a")
    assert planned(HOOK | {"url": url}).webhook["url"] == url
    one = planned(HOOK | {"url": f"{url}a"})
    assert one.webhook is None
    assert "webhook: its URL has more than 2,048 characters; left out." in one.notes


def test_without_the_envelope_the_signing_key_is_left_out() -> None:
    one = planned(HOOK | {"headers": {"jwt_key": "planted", "x-a": "1"}}, envelope=False)
    assert (one.webhook["headers"], "plugins" in one.webhook) == ({"x-a": "1"}, False)
    assert "jwt_key left out" in " ".join(one.notes)
    assert "planted" not in repr(one)


@pytest.mark.parametrize(
    ("token", "block"), [(TOKEN, {"apikey": TOKEN}), ("short", {}), ("********", {}), (None, {})]
)
def test_bodies_have_the_token_that_clients_keep(token: str | None, block: dict[str, str]) -> None:
    """Workflows answer with the ``apikey`` and the ``server_url`` of the body."""
    one = planned(HOOK, instance={"token": token})
    assert one.webhook["plugins"] == {"evolution_envelope": block}
    assert ("apikey" in " ".join(one.notes)) is bool(block)
    assert TOKEN not in f"{one} {one.notes}"
    assert "plugins" not in planned(HOOK, envelope=False).webhook


def test_what_hookgw_does_not_have_is_named() -> None:
    parts = {"Chatwoot": {"enabled": True}, "Proxy": {"host": "h"}, "Sqs": {"enabled": False}, "Typebot": []}
    one = planned(None, instance={"integration": "WHATSAPP-BUSINESS", **parts})
    assert "Chatwoot, Proxy left out: hookgw has no such part." in one.notes
    assert "webhook: none is set." in one.notes
    assert one.integration == "WHATSAPP-BUSINESS"
    assert one.notes[-1] == "integration: WHATSAPP-BUSINESS, with the connector of instances.integrations."
    one = planned(None, global_key=TOKEN)
    assert one.token is None


def test_the_webhook_of_the_connector_is_no_receiver() -> None:
    one = planned(HOOK | {"headers": {"X-Hookgw-Proof": "planted"}})
    assert one.webhook is None
    assert "leads to a hookgw already" in " ".join(one.notes)
    assert "planted" not in repr(one)


@pytest.mark.parametrize(
    ("token", "staying", "integration", "options"),
    [
        (TOKEN, {"WHATSAPP-BAILEYS"}, "WHATSAPP-BAILEYS", {"remote": "loja 1", "api_key": TOKEN}),
        ("short", {"WHATSAPP-BAILEYS"}, "WHATSAPP-BAILEYS", {"remote": "loja 1", "api_key": "short"}),
        (TOKEN, set(), "WHATSAPP-BAILEYS", {}),
        (None, {"WHATSAPP-BAILEYS"}, "", {}),
        ("********", {"WHATSAPP-BAILEYS"}, "", {}),
    ],
)
def test_another_name_needs_options_of_the_connector(
    token: str | None, staying: set[str], integration: str, options: dict[str, Any]
) -> None:
    record = {"name": "loja 1", "integration": "WHATSAPP-BAILEYS", "token": token}
    (one,) = plan_import(
        [SourceInstance(record, None, {})], {}, KINDS, names={"loja 1": "loja1"}, staying=staying
    )
    assert (one.integration, one.options) == (integration, options)
    assert ("remote=loja 1" in " ".join(one.notes)) is bool(staying)
    assert TOKEN not in repr(one)


async def test_a_renamed_instance_connects(
    tmp_path: Path, nursery: trio.Nursery, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, remote = Evolution(), networks.Evolution()
    token = remote.add("Loja 1").token
    source.add("Loja 1", token=token)
    async with networks.serving(remote) as base_url, open_receiver(default=source.respond) as receiver:
        evolution = {"base_url": base_url, "api_key": networks.KEY, "servers": [base_url]}
        settings = Settings(
            server=ServerSettings(bind=("127.0.0.1:0",), public_url="http://127.0.0.1:9"),
            auth=AuthSettings(global_key=OWN_KEY),
            storage=StorageSettings(path=str(tmp_path / "hookgw.db"), min_free=Size(0)),
            instances=InstancesSettings(integrations={"WHATSAPP-BAILEYS": "evolution"}),
            plugins=PluginsSettings(options={"evolution": evolution}),
        )
        async with open_gateway(settings, base=tmp_path) as gateway:
            (url,) = await nursery.start(serve, create_app(gateway), settings.server)
            monkeypatch.setenv("HOOKGW_URL", url)
            monkeypatch.setenv("HOOKGW_KEY", OWN_KEY)
            monkeypatch.setenv("EVOLUTION_API_KEY", KEY)
            command = ("import", "evolution", "--from", receiver.url, "--apply")
            result = await invoke(*command, "--rename", "Loja 1=loja1")
            assert result.exit_code == 0, result.output
            assert token not in result.output
            async with httpx.AsyncClient(
                base_url=url, headers={"apikey": token}, verify=False, timeout=30
            ) as client:
                state = (await client.get("/instance/connect/loja1")).json()["instance"]["state"]
                with trio.fail_after(20):
                    while state != "open":
                        await trio.sleep(0.05)
                        state = (await client.get("/instance/connectionState/loja1")).json()["instance"][
                            "state"
                        ]


def test_settings_of_other_types_and_unknown_ones() -> None:
    found = SourceInstance({"name": "loja1"}, None, {"rejectCall": "yes", "msgCall": None, "colour": 1})
    (one,) = plan_import([found], {}, KINDS, names={})
    assert one.settings is not None
    assert (one.settings["rejectCall"], one.settings["msgCall"]) == (False, "")
    assert "settings: rejectCall is left out: bool is expected." in one.notes
    assert "settings: colour left out: hookgw has no such setting." in one.notes


@pytest.mark.parametrize(("length", "kept"), [(4096, 4096), (4097, 0)])
def test_a_text_that_is_too_long_for_hookgw_is_left_out(length: int, kept: int) -> None:
    found = SourceInstance({"name": "loja1"}, None, {"rejectCall": True, "msgCall": "n" * length})
    (one,) = plan_import([found], {}, KINDS, names={})
    assert one.settings is not None
    assert (one.settings["rejectCall"], len(one.settings["msgCall"])) == (True, kept)
    said = "settings: msgCall is left out: it has more than 4,096 characters."
    assert (said in one.notes) is (kept == 0)
