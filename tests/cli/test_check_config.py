"""``check-config`` finds everything in the plugins that would stop the start."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hookgw import Event, Registration
from tests.cli.conftest import Invoke
from tests.public.concurrency import Clock
from tests.public.config import REFUSED_PORTS, MasterKeys, StorageSettings
from tests.public.store import Append, open_storage
from tests.support.broken_plugins import PLUGINS, write_plugin
from tests.support.postgres import PostgresServer


@pytest.mark.parametrize(("hook", "why"), PLUGINS.values(), ids=PLUGINS)
async def test_a_broken_plugin_is_named_in_one_line(
    invoke: Invoke, tmp_path: Path, hook: str, why: str
) -> None:
    write_plugin(tmp_path, hook)
    result = await invoke("check-config")
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: Plugin 'mine' failed in hookgw_")
    assert why in line
    assert line.endswith("Fix the plugin, or add mine to plugins.disabled or plugins.optional.")


async def test_an_optional_plugin_may_be_broken(invoke: Invoke, tmp_path: Path) -> None:
    write_plugin(tmp_path, "def hookgw_connectors(): return [5]")
    (tmp_path / "config.yaml").write_text("plugins: {optional: [mine]}\n")
    assert (await invoke("check-config")).exit_code == 0
    found = json.loads((await invoke("plugins", "--json")).stdout)
    assert "return a list of Connector" in {info["name"]: info["error"] for info in found}["mine"]


async def test_a_ca_file_without_a_certificate_is_an_error(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    (tmp_path / "config.yaml").write_text(f"delivery: {{ca_file: {tmp_path / 'ca.pem'}}}\n")
    result = await invoke("check-config", str(tmp_path / "config.yaml"))
    assert result.exit_code == 1
    assert f"delivery.ca_file: {tmp_path / 'ca.pem'} contains no PEM certificate." in result.stderr


async def test_a_master_key_that_cannot_be_read_is_an_error(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("storage: {master_key_file: nofile}\n")
    result = await invoke("check-config")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "storage.master_key_file: " in result.stderr
    assert "cannot be read" in result.stderr


WEBHOOK = "global_webhooks: [{{label: crm, url: 'https://crm.example/', {rest}}}]\n"


@pytest.mark.parametrize(
    ("hook", "rest", "message"),
    [
        ("", "events: [NOPE]", "global_webhooks[0].events[0]: 'NOPE' is not a known event kind."),
        ("", "events: [MINE]", None),
        ("", "plugins: {mine: {a: 1}}", "global_webhooks[0].plugins.mine: this plugin takes no options"),
        ("", "plugins: {nobody: {a: 1}}", "global_webhooks[0].plugins.nobody: no plugin has this name."),
        (
            "def hookgw_check_registration(options): raise ValueError('a must be 2')",
            "plugins: {mine: {a: 1}}",
            "global_webhooks[0].plugins.mine: a must be 2.",
        ),
        (
            "def hookgw_check_registration(options): options['b']",
            "plugins: {mine: {a: 1}}",
            "Plugin 'mine' failed in hookgw_check_registration: KeyError: 'b'",
        ),
    ],
)
async def test_the_webhooks_of_the_configuration_are_checked(
    invoke: Invoke, tmp_path: Path, hook: str, rest: str, message: str | None
) -> None:
    write_plugin(tmp_path, hook or "def hookgw_delivered(): ...")
    (tmp_path / "config.yaml").write_text(WEBHOOK.format(rest=rest))
    result = await invoke("check-config")
    assert result.exit_code == (0 if message is None else 1)
    assert (message or "") in result.stderr
    assert len(result.stderr.splitlines()) == (message is not None)


@pytest.mark.parametrize(
    "hook",
    [
        "def hookgw_check_registration(options): raise ValueError('a must be 2')",
        "def hookgw_check_registration(options): options['b']",
        "def hookgw_event_kinds(): 1 / 0",
    ],
)
async def test_webhooks_may_have_options_for_an_optional_plugin_that_fails(
    invoke: Invoke, tmp_path: Path, hook: str
) -> None:
    write_plugin(tmp_path, hook)
    rest = "plugins: {mine: {a: 1}, missing: {a: 1}}"
    optional = "plugins: {optional: [mine, missing]}\n"
    (tmp_path / "config.yaml").write_text(WEBHOOK.format(rest=rest) + optional)
    assert (await invoke("check-config")).exit_code == 0


async def test_routes_find_a_gateway_without_instances(invoke: Invoke, tmp_path: Path) -> None:
    # In a task: a plugin may start with trio here.
    write_plugin(
        tmp_path,
        "def hookgw_routes(app, gateway):\n"
        "    import trio\n"
        "    trio.lowlevel.current_task()\n"
        "    assert gateway.catalog.get('mine')\n"
        "    assert gateway.http and gateway.events.accept\n"
        "    assert gateway.instances.all() == gateway.lanes() == []\n"
        "    assert gateway.registrations.of_instance('shop') == []\n"
        "    assert gateway.instances.find('shop') is None\n"
        "    app.add_url_rule('/mine', view_func=lambda: 'x')\n",
    )
    assert (await invoke("check-config")).exit_code == 0


async def test_a_route_of_the_dashboard_is_refused(invoke: Invoke, tmp_path: Path) -> None:
    write_plugin(tmp_path, "def hookgw_routes(app): app.add_url_rule('/dashboard', 'mine', lambda: 'open')")
    result = await invoke("check-config")
    assert result.exit_code == 1
    assert "the route /dashboard is below /dashboard, which is the dashboard's" in result.output


@pytest.mark.parametrize(
    ("more", "code"), [("", 1), ("plugins: {optional: [mine]}", 0), ("plugins: {disabled: [mine]}", 1)]
)
async def test_an_integration_needs_a_connector(invoke: Invoke, tmp_path: Path, more: str, code: int) -> None:
    if more:  # whose connector may be what is missing
        write_plugin(tmp_path, "def hookgw_connectors(): return [5]")
    mapping = "instances: {integrations: {WHATSAPP-BAILEYS: mine}}"
    (tmp_path / "config.yaml").write_text(f"{mapping}\n{more}\n")
    result = await invoke("check-config")
    assert result.exit_code == code
    if code:
        said = "instances.integrations.WHATSAPP-BAILEYS: there is no connector 'mine'. Known connectors: "
        assert said in result.stderr


async def store_webhooks(place: dict[str, Any], keys: MasterKeys = MasterKeys()) -> None:  # noqa: B008
    """Store webhooks with refused addresses and others, and a backlog."""
    settings = msgspec.convert(place, StorageSettings)
    async with open_storage(settings, clock=Clock(), keys=keys) as store:
        for instance, url in (
            ("loja1", "http://10.1.2.3/hook"),
            ("loja2", "http://crm.example:5432/"),
            ("loja3", "https://crm.example/"),
        ):
            one = Registration(id=f"reg_{instance}", instance=instance, url=url)
            await store.put_registration(one)
            event = Event(id=f"e{instance}", kind="CALL", instance=instance, data_json=b"{}", time=1.0)
            await store.append([Append(event, ((one.id, f"{one.id}:0"),))])
        disabled = Registration(id="reg_4", instance="loja4", url="http://10.1.2.4/", enabled=False)
        await store.put_registration(disabled)


TEN = 'the address is private (10.0.0.0/8). To allow it, set delivery.allow_networks: ["10.1.2.3/32"].'
HOME = (
    'the address is private (192.168.0.0/16). To allow it, set delivery.allow_networks: ["192.168.1.1/32"].'
)
PORT = (
    "it is on the list of refused ports (PostgreSQL). To allow it, leave 5432 out of delivery.refused_ports."
)
REFUSED = [
    f"Warning: Webhook {webhook}, {pending}: The host {host} is blocked. Port {port} is not dialled: {why}"
    for webhook, pending, host, port, why in (
        ("default of loja1", "1 pending delivery", "10.1.2.3", "80 of 10.1.2.3", TEN),
        ("default of loja2", "1 pending delivery", "crm.example", "5432", PORT),
        ("own of every instance", "0 pending deliveries", "192.168.1.1", "80 of 192.168.1.1", HOME),
    )
]


@pytest.mark.parametrize("key", [None, b"k" * 32], ids=["clear", "encrypted"])
async def test_webhooks_whose_address_is_refused_are_named(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: bytes | None
) -> None:
    place = {"path": str(tmp_path / "hookgw.db")}
    await store_webhooks(place, MasterKeys(key))
    webhooks = [{"label": "own", "url": "http://192.168.1.1/"}]
    given: dict[str, Any] = {"storage": place, "global_webhooks": webhooks}
    if key is not None:
        monkeypatch.setenv("HOOKGW_MASTER_KEY", base64.b64encode(key).decode())
    (tmp_path / "config.yaml").write_text(json.dumps(given))
    before = (tmp_path / "hookgw.db").read_bytes()
    result = await invoke("check-config")
    assert (result.exit_code, result.stderr.splitlines()) == (0, REFUSED)
    assert (tmp_path / "hookgw.db").read_bytes() == before
    # With the settings that the lines name, nothing is left.
    ports = [port for port in REFUSED_PORTS if port != 5432]
    given["delivery"] = {"allow_networks": ["10.1.2.3/32", "192.168.1.1/32"], "refused_ports": ports}
    (tmp_path / "config.yaml").write_text(json.dumps(given))
    result = await invoke("check-config")
    assert (result.exit_code, result.stderr) == (0, "")


async def test_the_stored_webhooks_are_read_beside_a_running_gateway(invoke: Invoke, tmp_path: Path) -> None:
    place = {"path": str(tmp_path / "hookgw.db")}
    await store_webhooks(place)
    (tmp_path / "config.yaml").write_text(json.dumps({"storage": place}))
    async with open_storage(msgspec.convert(place, StorageSettings), clock=Clock()) as store:
        event = Event(id="more", kind="CALL", instance="loja1", data_json=b"{}", time=1.0)
        await store.append([Append(event, (("reg_loja1", "reg_loja1:0"),))])
        result = await invoke("check-config")
        assert (result.exit_code, len(result.stderr.splitlines())) == (0, 2)
        assert "default of loja1, 2 pending deliveries" in result.stderr
        assert not (await store.pending_counts()).keys() - {(f"reg_loja{n}", f"loja{n}") for n in (1, 2, 3)}


async def test_without_a_storage_there_is_nothing_to_check(invoke: Invoke, tmp_path: Path) -> None:
    result = await invoke("check-config")
    assert (result.exit_code, result.stderr) == (0, "")
    assert not (tmp_path / "data").exists()


async def test_a_storage_that_cannot_be_read_is_named_and_is_no_error(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "hookgw.db").write_bytes(b"x" * 8192)
    (tmp_path / "config.yaml").write_text(json.dumps({"storage": {"path": str(tmp_path / "hookgw.db")}}))
    result = await invoke("check-config")
    assert result.exit_code == 0
    assert result.stderr.startswith("Warning: The stored webhooks were not checked. ")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql://u:hidden/x@h/db", "names a server, a port or a database that cannot be one"),
        ("postgresql://h/db?schema=x", "parameters that PostgreSQL does not know: schema"),
        ("postgresql://h/db", 'pip install "hookgw[postgresql]"'),
    ],
)
async def test_a_database_that_no_start_could_use_is_an_error(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, why: str
) -> None:
    if "pip" in why:
        monkeypatch.setitem(sys.modules, "hookgw.store.postgresql.server", None)
    (tmp_path / "config.yaml").write_text(json.dumps({"storage": {"engine": "postgresql", "url": url}}))
    result = await invoke("check-config")
    assert (result.exit_code, result.stdout) == (1, "")
    assert why in result.stderr
    assert "hidden" not in result.stderr


async def test_the_same_in_a_database(invoke: Invoke, tmp_path: Path, postgres: PostgresServer) -> None:
    with postgres.new_schema() as schema:
        place = {"engine": "postgresql", "url": postgres.url(), "schema": schema}
        (tmp_path / "config.yaml").write_text(json.dumps({"storage": place}))
        result = await invoke("check-config")
        assert (result.exit_code, result.stderr) == (0, "")
        await store_webhooks(place)
        result = await invoke("check-config")
        assert (result.exit_code, result.stderr.splitlines()) == (0, REFUSED[:2])
