"""``hookgw apply`` and ``hookgw export``, against a gateway."""

import json
import os
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import click.testing
import jsonschema_rs
import pytest
import trio

from hookgw import Gateway
from hookgw.testing import Receiver
from tests.cli.conftest import Invoke, says
from tests.public.accounts import KeyPlace
from tests.public.app import open_gateway
from tests.public.command import Client
from tests.public.config import AuthSettings, ServerSettings, Settings, StorageSettings, read_yaml
from tests.public.kernel import Size
from tests.public.web import serve
from tests.support.application import create_app

KEY = "the-global-key-of-the-test"
FILE = Path("accounts.yaml")
FOLDER = Path("keys")
TEXT = """
name: acme
x-kinds: &kinds [MESSAGES_UPSERT]
defaults:
  connector: simulator
  webhook:
    events: *kinds
    headers: {authorization: "Bearer ${CRM_TOKEN}"}
instances:
  loja1:
    webhooks:
      crm: {url: "https://crm.example/1"}
  loja2:
    options: &two {rate: 2}
    webhooks:
      crm: {url: "https://crm.example/2", plugins: {}}
  loja3:
    options: {<<: *two, quietAfter: 1h}
"""


@pytest.fixture
async def gateway(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nursery: trio.Nursery
) -> AsyncIterator[Gateway]:
    """A gateway that commands call, and a variable that the file needs."""
    settings = Settings(
        server=ServerSettings(bind=("127.0.0.1:0",)),
        auth=AuthSettings(global_key=KEY),
        storage=StorageSettings(path=str(tmp_path / "hookgw.db"), min_free=Size(0)),
    )
    monkeypatch.setenv("HOOKGW_KEY", KEY)
    monkeypatch.setenv("CRM_TOKEN", "s3cret-token")
    async with open_gateway(settings, base=tmp_path) as gateway:
        serving = trio.CancelScope()

        async def run(*, task_status: trio.TaskStatus[list[str]]) -> None:
            with serving:
                await serve(create_app(gateway), settings.server, task_status=task_status)

        (url,) = await nursery.start(run)
        monkeypatch.setenv("HOOKGW_URL", url)
        yield gateway
        serving.cancel()


def put(file: Path, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


def write(text: str) -> None:
    FILE.write_text(text)


def lines(result: click.testing.Result) -> list[str]:
    return [line for line in result.stdout.splitlines() if line[:1] in "+~-!"]  # not the gateway's log


async def test_a_file_is_planned_applied_and_then_unchanged(invoke: Invoke, gateway: Gateway) -> None:
    write(TEXT)
    planned = await invoke("apply", "-f", "accounts.yaml", "--dry-run")
    assert planned.exit_code == 0, planned.output
    assert lines(planned) == ["+ loja1", "+ loja1/crm", "+ loja2", "+ loja2/crm", "+ loja3"]
    assert gateway.instances.count() == 0
    unsure = await invoke("apply", "-f", "accounts.yaml")
    assert (unsure.exit_code, gateway.instances.count()) == (1, 0)
    assert "Add --yes" in unsure.stderr
    applied = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert applied.exit_code == 0, applied.output
    assert "5 changes done, 0 failed." in applied.stderr
    assert gateway.registrations.get("loja1", "crm").headers == {"authorization": "Bearer s3cret-token"}
    loja3 = gateway.instances.get("loja3")
    assert (loja3.options, loja3.quiet_after) == ({"rate": 2}, 3600)
    again = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert (again.exit_code, again.stdout) == (0, "")
    assert "Nothing to change; 5 as the file says." in again.stderr
    assert "s3cret" not in "".join(one.output for one in (planned, applied, again))


async def test_changed_fields_and_removals_are_shown(invoke: Invoke, gateway: Gateway) -> None:
    write(TEXT)
    await invoke("apply", "-f", "accounts.yaml", "--yes")
    head, _, _ = TEXT.partition("  loja3:")
    write(head.replace("crm.example/2", "crm.example/3"))
    result = await invoke("apply", "-f", "accounts.yaml", "--prune", "--yes")
    assert result.exit_code == 0, result.output
    assert lines(result) == ["~ loja2/crm url", "- loja3"]
    assert [one.name for one in gateway.instances.all()] == ["loja1", "loja2"]


async def test_all_mistakes_have_their_line_and_column(
    invoke: Invoke, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CRM_TOKEN")
    write(TEXT.replace("rate: 2", "rat: 2").replace("plugins", "plugin").replace("loja3:", "lo ja:"))
    result = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert result.exit_code == 2
    found = [line.removeprefix("Error: ") for line in result.stderr.splitlines()]
    assert [line.partition(": ")[0] for line in found] == [
        "accounts.yaml:8:30",
        "accounts.yaml:14:20",
        "accounts.yaml:16:43",
        "accounts.yaml:17:3",
    ]
    assert "the environment variable CRM_TOKEN is not set" in found[0]
    assert "Did you mean rate?" in found[1]
    assert (
        "instances.loja2.webhooks.crm.plugin is not a field of a webhook. Did you mean plugins?" in found[2]
    )
    assert gateway.instances.count() == 0


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("instances:\n  a: {}\n  a: {}\n", "3:3", "this key appears twice"),
        ("instances:\n\ta: {}\n", "2:1", "this is not YAML"),
        ("instances:\n  a:\n    tags: {}\n   webhooks: {}\n", "4:4", "this is not YAML"),
        ("- a\n", "1:1", "the file has no mapping"),
        ("instances: {a: *nowhere}\n", "1:16", "there is no anchor &nowhere"),
        (
            "a: &a [x, x]\n"
            + "".join(
                f"b{n}: &b{n} [*{'a' if not n else f'b{n - 1}'}, *{'a' if not n else f'b{n - 1}'}]\n"
                for n in range(25)
            ),
            "18:18",
            "more than 1,000,000 values",
        ),
    ],
)
async def test_files_that_are_no_yaml_or_a_bomb(
    invoke: Invoke, gateway: Gateway, text: str, where: str, why: str
) -> None:
    write(text)
    result = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert result.exit_code == 2
    assert any(f"accounts.yaml:{where}" in line and why in line for line in result.stderr.splitlines()), (
        result.stderr
    )


async def test_standard_input_is_read_as_a_file_is(invoke: Invoke, gateway: Gateway) -> None:
    text = "\ufeffinstances: {loja1: {settings: {msgCall: São 日本}}}"
    for charset in ("utf-8", "cp1252"):
        result = await invoke("apply", "-f", "-", "--yes", input=text.encode(), charset=charset)
        assert result.exit_code == 0, result.output
        assert gateway.instances.get("loja1").settings.msg_call == "São 日本"
    result = await invoke("apply", "-f", "-", "--yes", input=b"name: a\ninstances: \xff")
    assert result.exit_code == 2
    assert "standard input:2: this is not UTF-8" in result.stderr


async def test_secrets_come_from_files_and_escapes_are_texts(invoke: Invoke, gateway: Gateway) -> None:
    put(FOLDER / "token", "from-a-file\n")
    write(
        "instances: {loja1: {webhooks: {crm: {url: 'https://crm.example', "
        "headers: {a: '${file:keys/token}', b: '$${b}'}}}}}"
    )
    assert (await invoke("apply", "-f", "accounts.yaml", "--yes")).exit_code == 0
    assert gateway.registrations.get("loja1", "crm").headers == {"a": "from-a-file", "b": "${b}"}
    write("instances: {loja1: {options: {token: '${file:nowhere}'}}}")
    result = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert result.exit_code == 2
    assert "accounts.yaml:1:38: instances.loja1.options.token: " in result.stderr
    assert "cannot be read" in result.stderr


async def test_a_part_that_fails_is_named_and_the_rest_is_done(invoke: Invoke, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    write(TEXT)
    result = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert result.exit_code == 1
    assert "! loja1: Its connector is none, and simulator in the document." in result.stdout
    assert "Failed: loja1: Its connector is none" in result.stderr
    assert gateway.registrations.find("loja1", "crm") is not None
    assert gateway.instances.count() == 3


async def test_what_is_wrong_with_many_parts_is_told_once(invoke: Invoke, gateway: Gateway) -> None:
    hooks = "".join(
        f"  loja{number}: {{webhooks: {{crm: {{url: 'http://crm.example:25'}}}}}}\n" for number in range(8)
    )
    write(f"instances:\n{hooks}  other: {{connector: simulator}}")
    await gateway.instances.create("other")
    result = await invoke("apply", "-f", "accounts.yaml", "--yes")
    (warning,) = (line for line in result.stderr.splitlines() if line.startswith("Warning: "))
    assert warning.startswith(
        "Warning: loja0/crm, loja1/crm, loja2/crm, loja3/crm, loja4/crm and 3 more: url: The host crm.example"
    )
    assert result.stderr.count("Failed: ") == 1


async def test_ctrl_c_says_how_much_is_done_and_what_to_do(
    invoke: Invoke, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("instances:\n" + "".join(f"  loja{number}: {{}}\n" for number in range(60)))
    call, calls = Client.call, list[object]()

    def interrupted(self: Client, *args: Any, **given: Any) -> Any:
        calls.append(args)
        if len(calls) == 3:  # after the plan and the first part
            raise KeyboardInterrupt
        return call(self, *args, **given)

    monkeypatch.setattr(Client, "call", interrupted)
    result = await invoke("apply", "-f", str(FILE), "--yes")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-2:] == [
        "50 changes done, 0 failed.",
        "Error: Stopped: 10 changes may not be done. Apply the file again.",
    ]
    result = await invoke("apply", "-f", str(FILE), "--yes")
    assert result.stderr.splitlines()[-1] == "10 changes done, 0 failed."


async def test_a_conflict_counts_beside_a_change_of_the_same_instance(
    invoke: Invoke, gateway: Gateway
) -> None:
    write("name: acme\ninstances:\n  loja1: {connector: simulator}\n")
    assert (await invoke("apply", "-f", str(FILE), "--yes")).exit_code == 0
    write("name: acme\ninstances:\n  loja1: {connector: webhook, tags: {tenant: acme}}\n")
    result = await invoke("apply", "-f", str(FILE), "--yes", "--json")
    assert result.exit_code == 1
    applied = json.loads(result.stdout)
    assert [(one["action"], one["state"]) for one in applied["changes"]] == [
        ("conflict", "planned"),
        ("change", "done"),
    ]
    assert applied["failed"] == 1
    assert gateway.instances.get("loja1").tags["tenant"] == "acme"


async def test_what_is_exported_changes_nothing(
    invoke: Invoke, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(TEXT)
    await invoke("apply", "-f", "accounts.yaml", "--yes")
    exported = await invoke("export")
    assert exported.exit_code == 0, exported.output
    assert "s3cret" not in exported.output
    assert (
        "LOJA1_CRM_AUTHORIZATION  instances.loja1.webhooks.crm.headers.authorization and 1 more"
        in exported.stderr
    )
    write(exported.stdout)
    missing = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert missing.exit_code == 2
    assert "variable LOJA1_CRM_AUTHORIZATION is not set" in missing.stderr
    monkeypatch.setenv("LOJA1_CRM_AUTHORIZATION", "Bearer s3cret-token")
    again = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert (again.exit_code, again.stdout) == (0, "")


async def test_two_hundred_instances_are_applied_exported_and_unchanged(
    invoke: Invoke, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    document: dict[str, Any] = {
        "name": "production",
        "defaults": {
            "connector": "simulator",
            "webhook": {"headers": {"authorization": "Bearer ${CRM_TOKEN}"}, "events": ["MESSAGES_UPSERT"]},
        },
        "instances": {
            f"loja{number:03}": {
                "tags": {"tenant": f"t{number % 30:02}"},
                "webhooks": {
                    label: {"url": f"https://{label}.example/{number}"}
                    for label in ("crm", "n8n")[: 1 + number % 2]
                },
            }
            for number in range(200)
        },
    }
    write(json.dumps(document))  # JSON is YAML
    applied = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert applied.exit_code == 0, applied.output
    assert "500 changes done, 0 failed." in applied.stderr
    assert len({one.tags["tenant"] for one in gateway.instances.all()}) == 30
    again = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert "Nothing to change; 500 as the file says." in again.stderr
    write((await invoke("export")).stdout)
    monkeypatch.setenv("LOJA000_CRM_AUTHORIZATION", "Bearer s3cret-token")
    exported = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert "Nothing to change; 500 as the file says." in exported.stderr


async def test_the_schema_is_for_files_with_references(invoke: Invoke) -> None:
    result = await invoke("apply", "--schema")
    assert result.exit_code == 0
    schema = json.loads(result.stdout)
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid(read_yaml(TEXT, anchors=True).value)
    hook = {
        "url": "${URL}",
        "secret": "${SECRET}",
        "concurrency": "${N}",
        "enabled": "${ON}",
        "timeout": "5s",
    }
    assert validator.is_valid({"instances": {"a": {"webhooks": {"crm": hook}}}})
    assert validator.is_valid({"instances": None, "keys": None})
    assert validator.is_valid({"instances": {"a": {"webhooks": None, "tags": {"plan": None}}}})
    assert not validator.is_valid({"instances": {"a": {"tags": {"plan": 1}}}})
    assert not validator.is_valid({"instances": {"a": {"webhooks": {"crm": {"ulr": "https://x"}}}}})
    assert not validator.is_valid({"instances": {"a": {"webhooks": {"crm": {"timeout": "soon"}}}}})
    assert not validator.is_valid({"instances": {"a b": {}}})


async def test_a_server_that_is_away_is_not_a_wrong_file(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKGW_URL", "http://127.0.0.1:9")
    write("instances: {}")
    result = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert result.exit_code == 1
    assert "Cannot connect" in result.stderr


KEYS = """
name: acme
instances: {loja1: {tags: {tenant: acme}}, loja2: {}}
keys:
  acme: {tags: {tenant: acme}, rights: [read, replay], expires: 90d, file: keys/acme}
  two: {instances: [loja1, loja2], rights: [read], command: "COMMAND"}
"""


def file_of(name: str) -> tuple[str, int]:
    """Return the content of a key's file, and its permissions."""
    file = FOLDER / name
    return file.read_text().strip(), stat.S_IMODE(file.stat().st_mode)


def files() -> list[str]:
    return sorted(one.name for one in FOLDER.iterdir())


async def test_values_of_new_keys_go_into_files_and_commands(invoke: Invoke, gateway: Gateway) -> None:
    script = "import os, sys; open('keys/' + os.environ['HOOKGW_KEY_NAME'], 'w').write(sys.stdin.read())"
    put(FOLDER / "script.py", script)
    write(KEYS.replace("COMMAND", f"{sys.executable} keys/script.py"))
    applied = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert applied.exit_code == 0, applied.output
    assert lines(applied) == ["+ loja1", "+ loja2", "+ key acme", "+ key two"]
    value, mode = file_of("acme")
    assert mode == 0o600
    holder, second = gateway.keys.holder_of(value), gateway.keys.holder_of(file_of("two")[0])
    assert holder is not None
    assert second is not None
    assert holder.principal.reach.tags == (("tenant", "acme"),)
    assert holder.principal.rights.words == ("read", "replay")
    assert len(second.principal.reach.instances or ()) == 2
    assert value not in applied.output
    again = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert (again.exit_code, again.stdout) == (0, "")
    assert file_of("acme")[0] == value
    exported = await invoke("export")
    assert value not in exported.output
    _, _, keys = exported.stdout.partition("keys:")
    assert (
        "  acme:\n    tags:\n      tenant: acme\n    rights:\n    - read\n    - replay\n    expires: " in keys
    )
    write(exported.stdout)
    again = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert (again.exit_code, again.stdout) == (0, ""), again.output


async def test_a_key_whose_value_cannot_be_stored_is_not_created(invoke: Invoke, gateway: Gateway) -> None:
    unstored = KEYS.replace("keys/acme", "accounts.yaml/acme").replace("COMMAND", "false")
    write(unstored)
    result = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert result.exit_code == 1
    assert "Failed: key acme: " in result.stderr
    assert "cannot be written: File exists. The key was not created." in result.stderr
    assert "Failed: key two: Its command failed with exit code 1. The key was not created." in result.stderr
    assert [one.name for one in gateway.keys.list(None)] == ["configuration"]
    assert gateway.instances.count() == 2
    write(unstored.replace("loja2]", "loja1]").replace("loja2: {}", ""))
    pruned = await invoke("apply", "-f", "accounts.yaml", "--yes", "--prune")
    assert (pruned.exit_code, lines(pruned)) == (1, ["- loja2", "+ key acme", "+ key two"])
    assert [one.name for one in gateway.keys.list(None)] == ["configuration"]
    assert gateway.instances.count() == 1


async def test_an_apply_that_was_killed_before_the_key_was_made_goes_on_with_its_file(
    invoke: Invoke, gateway: Gateway
) -> None:
    value = "v" * 43
    put(FOLDER / "acme.new", f"{value}\n")
    write(KEYS.partition("  two:")[0])
    assert (await invoke("apply", "-f", "accounts.yaml", "--yes")).exit_code == 0
    assert gateway.keys.holder_of(value) is not None
    assert files() == ["acme"]
    assert file_of("acme")[0] == value


async def test_an_apply_that_was_killed_after_the_key_was_made_finds_its_value(
    invoke: Invoke, gateway: Gateway
) -> None:
    value = "v" * 43
    write(KEYS.partition("  two:")[0])
    assert (await invoke("apply", "-f", "accounts.yaml", "--yes")).exit_code == 0
    FOLDER.joinpath("acme").rename(FOLDER / "acme.new")
    assert (await invoke("apply", "-f", "accounts.yaml", "--yes")).exit_code == 0
    assert files() == ["acme"]
    put(FOLDER / "acme.new", f"{value}\n")
    result = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert result.exit_code == 1
    assert "! key acme: A key cannot be changed (value)" in result.stdout
    assert files() == ["acme", "acme.new"]


async def test_of_two_applies_at_once_one_makes_the_key_and_its_file_keeps_that_value(
    invoke: Invoke, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(KEYS.partition("  two:")[0])
    store = KeyPlace.store
    others: list[click.testing.Result] = []

    def store_later(place: KeyPlace) -> str:
        monkeypatch.setattr(KeyPlace, "store", store)
        others.append(trio.from_thread.run(invoke, "apply", "-f", "accounts.yaml", "--yes"))
        return store(place)

    monkeypatch.setattr(KeyPlace, "store", store_later)
    result = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert [one.exit_code for one in (*others, result)] == [0, 0], result.output
    assert files() == ["acme"]
    assert gateway.keys.holder_of(file_of("acme")[0]) is not None


async def test_the_value_that_another_apply_is_about_to_send_is_not_that_of_the_key(
    invoke: Invoke, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(KEYS.partition("  two:")[0])
    settle = KeyPlace.settle

    def settle_later(place: KeyPlace, *args: Any, **options: Any) -> None:
        put(FOLDER / "acme.new", f"{'o' * 43}\n")
        settle(place, *args, **options)

    monkeypatch.setattr(KeyPlace, "settle", settle_later)
    assert (await invoke("apply", "-f", "accounts.yaml", "--yes")).exit_code == 0
    assert gateway.keys.holder_of(file_of("acme")[0]) is not None
    assert files() == ["acme", "acme.new"]


async def test_what_a_key_may_do_is_not_changed(invoke: Invoke, gateway: Gateway) -> None:
    write(KEYS.partition("  two:")[0])
    assert (await invoke("apply", "-f", "accounts.yaml", "--yes")).exit_code == 0
    write(KEYS.partition("  two:")[0].replace("[read, replay]", "[read, send]").replace("90d", "10d"))
    result = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert result.exit_code == 1
    assert "! key acme: A key cannot be changed (rights): revoke it first" in result.stdout
    write("name: acme\ninstances: {loja1: {}, loja2: {}}")
    assert (await invoke("apply", "-f", "accounts.yaml", "--prune", "--yes")).exit_code == 0
    assert [one.name for one in gateway.keys.list(None)] == ["configuration"]


async def test_mistakes_in_keys_have_their_place(invoke: Invoke, gateway: Gateway) -> None:
    write(KEYS.replace("90d", "soon").replace("[read]", "[reed]").replace("loja2]", "loja3]"))
    result = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert result.exit_code == 2
    assert "accounts.yaml:5:56: keys.acme.expires must be an RFC 3339 time" in result.stderr
    assert "keys.two.rights[0] must be one of read" in result.stderr
    assert "keys.two.instances: there is no instance loja3. Did you mean loja2?" in result.stderr


async def test_an_incomplete_file_of_a_key_is_not_its_value(
    invoke: Invoke, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.accounts.key_files.MOMENT", 0)
    put(FOLDER / "acme.new", "half")
    write(KEYS.partition("  two:")[0])
    result = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert result.exit_code == 1
    assert "another apply writes it. The key was not created." in result.stderr
    os.utime(FOLDER / "acme.new", (0, 0))  # written long ago, by one that was killed
    assert (await invoke("apply", "-f", "accounts.yaml", "--yes")).exit_code == 0
    assert gateway.keys.holder_of(file_of("acme")[0]) is not None


async def test_a_key_without_a_place_for_its_value_is_not_created(invoke: Invoke, gateway: Gateway) -> None:
    write("keys: {acme: {rights: [read]}}")
    result = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert result.exit_code == 1
    assert "Failed: key acme: Give it file or command" in result.stderr
    assert [one.name for one in gateway.keys.list(None)] == ["configuration"]


async def test_a_server_that_restarts_is_waited_for(
    invoke: Invoke, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookgw.accounts.commands.RETRY_AFTER", 0.001)
    planned: dict[str, Any] = {
        "action": "create",
        "kind": "instance",
        "name": "loja1",
        "label": None,
        "fields": [],
        "state": "planned",
        "messages": [],
    }
    plan = {"name": None, "dryRun": True, "changes": [planned], "unchanged": 0, "warnings": []}
    done = {**plan, "changes": [{**planned, "state": "done"}]}
    server.will(says(plan), says({}, 503), says(done))
    write("instances: {loja1: }")
    result = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert result.exit_code == 0, result.output
    assert "1 change done, 0 failed." in result.stderr
    server.will(says(plan), *[says({}, 503)] * 4)
    result = await invoke("apply", "-f", "accounts.yaml", "--yes")
    assert result.exit_code == 1
    assert "Failed: loja1: 503" in result.stderr
