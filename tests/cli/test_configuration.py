"""``check-config`` and ``plugins``, and where commands find the configuration."""

import json
from pathlib import Path

import pytest
import trio

from tests.cli.conftest import Invoke
from tests.public.command import find_config

PLUGIN = """
import hookgw
__version__ = "7"
@hookgw.hookimpl
def hookgw_configure(options):
    if options.get("bad"):
        raise ValueError("bad must go")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a configuration and a plugin."""
    (tmp_path / "etc" / "plugins").mkdir(parents=True)
    (tmp_path / "etc" / "plugins" / "mine.py").write_text(PLUGIN)
    (tmp_path / "etc" / "gw.yaml").write_text("plugins: {options: {mine: {bad: false}}}\n")
    return tmp_path / "etc"


def test_the_default_file_is_used_if_it_exists(tmp_path: Path) -> None:
    assert find_config(None) is None
    (tmp_path / "config.yaml").write_text("")
    assert find_config(None) == Path("config.yaml")
    assert find_config(Path("other.yaml")) == Path("other.yaml")


async def test_a_link_to_a_missing_file_is_a_mistake_and_not_the_defaults(
    invoke: Invoke, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").symlink_to("missing.yaml")
    result = await invoke("check-config")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "config.yaml: the configuration file cannot be read: No such file" in result.stderr


async def test_a_valid_file_is_named(invoke: Invoke, folder: Path) -> None:
    result = await invoke("check-config", "etc/gw.yaml")
    assert (result.exit_code, result.stdout) == (0, "etc/gw.yaml is valid.\n")


async def test_without_a_file_the_environment_is_checked(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = await invoke("check-config")
    assert (result.exit_code, result.stdout) == (
        0,
        "The configuration (defaults and environment, no file) is valid.\n",
    )
    monkeypatch.setenv("HOOKGW_SERVER__SHUTDOWN_GRACE", "soon")
    result = await invoke("check-config")
    assert result.exit_code == 1
    assert "shutdown_grace" in result.stderr.lower()


async def test_the_file_can_come_from_the_environment(
    invoke: Invoke, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOKGW_CONFIG", str(folder / "gw.yaml"))
    assert "gw.yaml is valid." in (await invoke("check-config")).stdout
    assert "mine" in (await invoke("plugins")).stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sever: {}\n", "sever"),
        ("plugins: {options: {mine: {bad: true}}}\n", "bad must go"),
        ("plugins: {folders: [nowhere]}\n", "nowhere"),
        ("- list\n", "gw.yaml"),
    ],
)
async def test_errors_that_prevent_the_start_exit_with_1(
    invoke: Invoke, folder: Path, text: str, message: str
) -> None:
    (folder / "gw.yaml").write_text(text)
    result = await invoke("check-config", "etc/gw.yaml")
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


async def test_exposed_secrets_are_a_warning(invoke: Invoke, folder: Path) -> None:
    file = folder / "gw.yaml"
    await trio.Path(file).write_text("auth: {global_key: a-long-global-key}\n")
    await trio.Path(file).chmod(0o644)
    result = await invoke("check-config", str(file))
    assert result.exit_code == 0
    assert "auth.global_key" in result.stderr
    assert f"chmod o-r {file}" in result.stderr
    assert "a-long-global-key" not in result.output
    await trio.Path(file).chmod(0o600)
    assert "chmod" not in (await invoke("check-config", str(file))).stderr


async def test_a_missing_file_is_an_error(invoke: Invoke) -> None:
    result = await invoke("check-config", "none.yaml")
    assert result.exit_code == 1
    assert "none.yaml" in result.stderr


async def test_plugins_are_listed_with_their_hooks(invoke: Invoke, folder: Path) -> None:
    result = await invoke("plugins", "--config", "etc/gw.yaml")
    assert result.exit_code == 0, result.stderr
    row = next(line.split() for line in result.stdout.splitlines() if line.startswith("mine"))
    assert row[-3:] == ["7", "yes", "hookgw_configure"]
    listed = json.loads((await invoke("plugins", "--config", "etc/gw.yaml", "--json")).stdout)
    mine = next(found for found in listed if found["name"] == "mine")
    assert (mine["version"], mine["enabled"], mine["hooks"]) == ("7", True, ["hookgw_configure"])


async def test_what_plugins_print_at_their_start_is_no_part_of_the_result(
    invoke: Invoke, folder: Path
) -> None:
    with (folder / "plugins" / "mine.py").open("a") as file:
        file.write('print("imported")\n@hookgw.hookimpl\ndef hookgw_event_kinds():\n    print("asked")\n')
    result = await invoke("plugins", "--config", "etc/gw.yaml", "--json")
    assert [one["name"] for one in json.loads(result.stdout) if one["name"] == "mine"] == ["mine"]
    assert "imported" in result.stderr
    assert "asked" in result.stderr


async def test_the_files_of_tls_are_checked(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("server: {tls: {certificate: missing.pem, key: key.pem}}\n")
    result = await invoke("check-config")
    assert result.exit_code == 1
    assert "server.tls.certificate: missing.pem cannot be read: No such file or directory." in result.stderr
