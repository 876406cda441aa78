"""Commands on Windows and on macOS: Python without the modules and calls that these do not have."""

import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio
import trustme

from hookgw.testing import Receiver
from tests.cli.conftest import says
from tests.public.command import COMMANDS, Profile, Profiles, load_profiles, save_profiles
from tests.public.config import read_yaml

pytestmark = pytest.mark.process

NEED_A_SERVER = {"serve", "demo", "plugins", "plugin", "check-config", "backup", "restore", "storage"}
"""Commands that run hookgw, or work on its files."""
ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from tests.support.other_systems import pretend_{system}
pretend_{system}()
from hookgw.command.group import main
main(prog_name="hookgw")
"""


def command_on(system: str, *args: str) -> list[str]:
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    return [sys.executable, "-c", start + PROGRAM.format(system=system), *args]


async def run_on(system: str, *args: str) -> tuple[int, str, str]:
    call = partial(
        subprocess.run, command_on(system, *args), capture_output=True, text=True, check=False, timeout=60
    )
    done = await trio.to_thread.run_sync(call)
    return done.returncode, done.stdout, done.stderr


async def test_on_windows_every_other_command_is_loaded() -> None:
    code, output, errors = await run_on("windows", "--help")
    assert (code, errors) == (0, "")
    unavailable = {
        line.split()[0] for line in output.splitlines() if "Needs Linux or macOS; on Windows" in line
    }
    assert unavailable == NEED_A_SERVER
    assert {line.split()[0] for line in output.splitlines() if line[:2] == "  "} >= {*COMMANDS}


@pytest.mark.parametrize("args", [["serve"], ["demo", "--once"], ["check-config", "--help"]], ids=" ".join)
async def test_on_windows_a_server_says_what_it_needs(args: list[str]) -> None:
    code, output, errors = await run_on("windows", *args)
    assert (code, output) == (1, "")
    assert errors.startswith(f"Error: `hookgw {args[0]}` needs Linux or macOS. On Windows, run it in WSL")


@pytest.mark.parametrize(
    ("args", "value", "shown"),
    [
        (["delivery", "list", "loja1"], {"deliveries": [], "cursor": None}, "id"),
        (["emit", "loja1", "PING", "--data", "{}"], {"accepted": 1, "duplicates": 0, "ids": ["e1"]}, ""),
        (["health"], {"status": "ready"}, "ready"),
        (["webhook", "find", "loja1", "--json"], {"url": "http://x"}, "http://x"),
    ],
)
async def test_on_windows_commands_call_the_api(
    server: Receiver, args: list[str], value: object, shown: str
) -> None:
    server.default = says(value)
    code, output, errors = await run_on("windows", *args)
    assert (code, errors) == (0, "")
    assert shown in output


async def test_on_windows_a_pipe_that_lacks_a_character_gets_another(
    server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")
    server.default = says({"status": "ready 🎉 →"})
    assert await run_on("windows", "health") == (0, "ready ? ?\n", "")


async def test_on_windows_a_pipe_has_texts_for_programs_as_they_are(
    server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")
    text = "São 日本 🎉"
    server.default = says({"msgCall": text})
    code, output, _ = await run_on("windows", "instance", "settings", "loja1", "--json")
    assert (code, json.loads(output)) == (0, {"msgCall": text})
    server.default = says({"document": {"instances": {"loja1": {"msgCall": text}}}, "secrets": []})
    code, output, _ = await run_on("windows", "export")
    assert (code, read_yaml(output).value) == (0, {"instances": {"loja1": {"msgCall": text}}})


async def test_on_windows_a_unix_socket_is_refused() -> None:
    code, _, errors = await run_on("windows", "health", "--server", "unix:/run/hookgw")
    assert code == 2
    assert "This system has no Unix sockets: give an http or https URL." in errors


async def test_on_windows_a_profile_needs_no_mode(tmp_path: Path) -> None:
    file = tmp_path / "config/hookgw/profiles.yaml"
    save_profiles(file, Profiles(profiles={"shop": Profile(url="http://127.0.0.1:1", key="k")}))
    file.chmod(0o666)
    code, output, errors = await run_on("windows", "profile", "list", "--json")
    assert (code, errors) == (0, "")
    assert [one["name"] for one in json.loads(output)] == ["shop"]
    with pytest.raises(Exception, match="other users can access it"):
        load_profiles(file)


async def test_on_windows_listen_receives() -> None:
    command = command_on("windows", "listen", "--port", "0")
    async with trio.open_nursery() as nursery:
        process = await nursery.start(partial(trio.run_process, command, stderr=subprocess.PIPE, check=False))
        with trio.fail_after(30):
            said = b""
            while b"Ctrl-C" not in said:
                said += await process.stderr.receive_some() or pytest.fail(said.decode())
            url = said.decode().split()[2]
            host, port = url.removeprefix("http://").strip("/").split(":")
            stream = await trio.open_tcp_stream(host, int(port))
            await stream.send_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")
            await stream.aclose()
        process.send_signal(signal.SIGINT)


async def test_on_macos_the_demo_does_all_of_its_work() -> None:
    code, output, errors = await run_on("macos", "demo", "--once")
    assert (code, errors) == (0, ""), output


def test_on_macos_certificates_and_backups_do_without_calls_of_linux(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("client.example")
    program = f"""
import sqlite3, ssl, sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.support.other_systems import pretend_macos
pretend_macos()
from hookgw.config.open_files import divide_open_files
from hookgw.delivery.http.client_tls import load_certificate
from hookgw.store.sqlite import backup
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
load_certificate(context, sys.argv[1], sys.argv[2])
with open("synced", "w") as file:
    backup.sync(file.fileno())
divide_open_files(100)
"""
    chain = "".join(pem.bytes().decode() for pem in certificate.cert_chain_pems)
    key = certificate.private_key_pem.bytes().decode()
    command = [sys.executable, "-c", program, chain, key]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
