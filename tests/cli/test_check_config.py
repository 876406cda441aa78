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
