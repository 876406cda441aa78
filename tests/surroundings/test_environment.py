"""What the environment says: secrets in files, and variables that mean nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gateway_process import KEY
from tests.surroundings.surrounded import surrounded

pytestmark = pytest.mark.process


def test_keys_from_files_are_used_and_nothing_is_generated(tmp_path: Path) -> None:
    key, master = tmp_path / "key", tmp_path / "master"
    key.write_text(KEY + "\n", encoding="utf-8")
    master.write_text("Zm9yIHRoZSBzdXJyb3VuZGluZ3Mgb2YgaG9va2d3ISE=\n", encoding="utf-8")
    env = {"HOOKGW_GLOBAL_KEY_FILE": str(key), "HOOKGW_MASTER_KEY_FILE": str(master)}
    with surrounded(tmp_path, env=env, auth={}, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as gateway:
        gateway.wait_ready()
        gateway.register("shop", "http://127.0.0.1:9/", headers={"authorization": "a-secret-of-a-tenant"})
        gateway.popen.terminate()
        output, errors = gateway.popen.communicate(timeout=30)
        assert gateway.popen.returncode == 0
    assert b"Global key" not in output + errors
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("hookgw.db*"))
    assert b"a-secret-of-a-tenant" not in stored


def test_a_missing_file_stops_the_start(tmp_path: Path) -> None:
    env = {"HOOKGW_GLOBAL_KEY_FILE": str(tmp_path / "missing")}
    with surrounded(tmp_path, env=env, auth={}, stderr=subprocess.PIPE) as gateway:
        _, errors = gateway.popen.communicate(timeout=30)
        assert gateway.popen.returncode == 1
    assert b"HOOKGW_GLOBAL_KEY_FILE: " in errors
    assert b"No such file" in errors


def test_an_unknown_variable_gets_a_warning_with_the_nearest_name(tmp_path: Path) -> None:
    with surrounded(tmp_path, env={"HOOKGW_GLOBALKEY": "x"}, stderr=subprocess.PIPE) as gateway:
        gateway.wait_ready()
        gateway.popen.terminate()
        _, errors = gateway.popen.communicate(timeout=30)
    assert b"unknown environment variable" in errors
    assert b"Did you mean HOOKGW_GLOBAL_KEY?" in errors


def test_a_closed_standard_input_is_an_empty_one() -> None:
    command = ["sh", "-c", '"$0" -m hookgw lane list --key - <&-', sys.executable]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "Error: There is no key on standard input.\n")
