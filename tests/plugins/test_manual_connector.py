"""The manual's section "Write a connector" works as it is printed: package, tests, installation, commands."""

import json
import os
import re
import shutil
import socket
import subprocess
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.public.plugins import OPTIONAL_METHODS
from tests.support.gateway_process import KEY, serving
from tests.support.ports import free_port
from tests.support.processes import Process, run, started

ROOT = Path(__file__).parents[2]
MANUAL = (ROOT / "docs" / "connectors.md").read_text(encoding="utf-8")
SECTION = re.split("^## ", MANUAL[MANUAL.index("## Write a connector\n") :], flags=re.MULTILINE)[1]
FILES = dict(re.findall(r"^```(?:python|toml|yaml)\n# (\S+)\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL))
COMMANDS = re.findall(r"^```bash\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The files of the section, in a folder of their own."""
    folder = tmp_path / "hookgw-acme"
    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def test_the_section_has_every_file() -> None:
    assert list(FILES) == [
        "pyproject.toml",
        "hookgw_acme/__init__.py",
        "hookgw_acme/network.py",
        "hookgw_acme/payloads.py",
        "hookgw_acme/connector.py",
        "tests/server.py",
        "tests/test_acme.py",
        "config.yaml",
    ]
    assert len(re.findall("^```", SECTION, re.MULTILINE)) == 2 * (len(FILES) + len(COMMANDS))


@pytest.mark.process
def test_its_tests_pass(package: Path) -> None:
    # httpx's transport for ASGI apps leaves the body of a request that the app did not read to the collector.
    not_ours = "ignore:Async generator 'httpx._content.ByteStream.__aiter__':ResourceWarning"
    done = run(
        ["-m", "pytest", "-p", "no:cacheprovider", "-W", "error", "-W", not_ours, "."],
        cwd=package,
        patience=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout


def test_the_table_has_every_optional_method() -> None:
    rows = re.findall(r"^\| `(\w+)\((.*?)\)` \|", SECTION, re.MULTILINE)
    assert dict(rows) == OPTIONAL_METHODS


def install(package: Path) -> dict[str, str]:
    """Make the package a distribution that Python finds, as an editable installation does."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    metadata = package / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir()
    name, version = project["name"], project["version"]
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    points = [f"{name} = {module}" for name, module in project["entry-points"]["hookgw"].items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[hookgw]", *points, ""]))
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH")]))}


@pytest.mark.process
@pytest.mark.e2e
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_it_can_be_installed_and_connected(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("PYTHONPATH", install(package)["PYTHONPATH"])
    shown = run(["-m", "hookgw", "plugins"], cwd=package)
    assert re.search(r"^acme\b", shown.stdout, re.MULTILINE), shown.stdout + shown.stderr
    stand_in = package / "tests" / "server.py"
    stand_in.write_text(stand_in.read_text().replace("9400", str(port)))
    plugins = yaml.safe_load(FILES["config.yaml"].replace("9400", str(port)))["plugins"]
    (package / "data").mkdir()
    # Without an allowed network: the server is private, and reached because the operator lists it.
    with (
        started([stand_in], cwd=package) as server,
        serving(package / "data", plugins=plugins, delivery={"allow_networks": []}) as gateway,
    ):
        wait_for_port(port, server)
        commands = COMMANDS[1].replace("9400", str(port))
        env = {**os.environ, "HOOKGW_URL": gateway.url, "HOOKGW_KEY": KEY}
        done = subprocess.run(
            ["bash", "-euc", commands], env=env, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        created, _, sent = json_values(done.stdout)
        assert created["instance"]["integration"] == "acme"
        assert sent["key"] == {"remoteJid": "!room:acme", "fromMe": True, "id": "$sent0"}
        again = gateway.post(
            "/message/sendText/shop",
            {"number": "!room:acme", "text": "hello"},
            headers={"idempotency-key": "order-17"},
            status=201,
        )
        assert again["key"] == sent["key"]


def wait_for_port(port: int, process: Process) -> None:
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.popen.poll() is None, process.errors
        time.sleep(0.1)
    raise AssertionError("the stand-in does not listen")


def json_values(text: str) -> list[Any]:
    """Return the JSON values that stand one after the other in a text."""
    found, decoder = [], json.JSONDecoder()
    while text := text.strip():
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:]
    return found
