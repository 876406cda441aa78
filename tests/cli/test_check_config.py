"""``check-config`` finds everything in the plugins that would stop the start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke
from tests.support.broken_plugins import PLUGINS, write_plugin


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
    ("more", "code"),
    [("", 1), ("plugins: {optional: [mine]}", 0), ("plugins: {disabled: [mine]}", 1)],
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
