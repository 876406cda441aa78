"""The commands against a running server, as a program uses them."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway_process import KEY, ReceiverProcess, Server
from tests.support.processes import run

pytestmark = pytest.mark.e2e


def test_register_emit_and_inspect_with_commands_only(server: Server, receiver: ReceiverProcess) -> None:
    key = server.command("instance", "create", "cli")["hash"]
    assert key
    stored = server.command("webhook", "set", "cli", receiver.url("/cli"), "--kind", "messages.upsert")
    assert stored["events"] == ["MESSAGES_UPSERT"]
    assert server.command("webhook", "find", "cli")["url"] == receiver.url("/cli")
    secret = server.command("webhook", "secret", "cli")["secret"]
    assert secret.startswith("whsec_")
    data = '{"key": {"remoteJid": "a"}, "n": 9007199254740993}'
    answer = server.command("emit", "cli", "MESSAGES_UPSERT", "--data", data, "--id", "by-command")
    assert answer["ids"] == ["by-command"]
    arrival = receiver.next("/cli")
    assert arrival.headers["webhook-id"] == "by-command"
    assert arrival.json["data"]["n"] == 9007199254740993
    tested = server.command("webhook", "test", "cli")
    assert (tested["status"], tested["outcome"]) == (200, "delivered")
    listed = server.command("delivery", "list", "cli")
    assert "by-command" in json.dumps(listed)
    shown = server.command("delivery", "show", "cli", "by-command")
    assert len(shown["attempts"]) == 1
    lanes = server.command("lane", "list")
    assert receiver.url("/cli") in json.dumps(lanes)


def test_a_batch_may_come_from_standard_input(server: Server, receiver: ReceiverProcess) -> None:
    server.set("cli-batch", receiver.url("/cli-batch"))
    lines = "".join(json.dumps({"event": "CALL", "data": {"n": n}}) + "\n" for n in range(5))
    assert server.command("emit", "cli-batch", "--batch", "-", stdin=lines)["accepted"] == 5
    assert [receiver.next("/cli-batch").json["data"]["n"] for _ in range(5)] == list(range(5))


def test_keys_can_be_replaced_at_run_time(server: Server) -> None:
    def lists(key: str) -> bool:
        env = {"HOOKGW_URL": server.url, "HOOKGW_KEY": key}
        return run(["-m", "hookgw", "instance", "list"], cwd=server.folder, env=env).returncode == 0

    old = server.command("instance", "create", "cli-keys")["hash"]
    new = server.command("key", "create", "fresh", "--instance", "cli-keys", "--expires-in", "1d")["key"]
    assert (lists(old), lists(new)) == (True, True)
    done = run(
        ["-m", "hookgw", "key", "revoke", "default", "--instance", "cli-keys"],
        cwd=server.folder,
        env={"HOOKGW_URL": server.url, "HOOKGW_KEY": KEY},
    )
    assert done.stdout == "Revoked 'default'.\n"
    assert (lists(old), lists(new)) == (False, True)
    assert [key["name"] for key in server.command("key", "list", "--instance", "cli-keys")] == ["fresh"]


def test_an_error_of_the_server_exits_with_1(server: Server) -> None:
    env = {"HOOKGW_URL": server.url, "HOOKGW_KEY": KEY}
    done = run(["-m", "hookgw", "emit", "nobody", "CALL"], cwd=server.folder, env=env)
    assert done.returncode == 1
    assert "nobody" in done.stderr
    done = run(["-m", "hookgw", "lane", "list"], cwd=server.folder, env={**env, "HOOKGW_KEY": "wrong"})
    assert done.returncode == 1
    assert done.stdout == ""


def test_check_config_needs_no_running_server(server: Server, tmp_path: Path) -> None:
    good = run(["-m", "hookgw", "check-config", server.folder / "config.yaml"], cwd=tmp_path)
    assert good.returncode == 0, good.stderr
    (tmp_path / "bad.yaml").write_text("server: {bnd: []}\n")
    bad = run(["-m", "hookgw", "check-config", "bad.yaml"], cwd=tmp_path)
    assert bad.returncode == 1
    assert "server.bnd" in bad.stderr


def test_plugins_lists_the_first_party_plugins(server: Server) -> None:
    done = run(["-m", "hookgw", "plugins", "--json"], cwd=server.folder)
    assert done.returncode == 0, done.stderr
    names = {plugin["name"] for plugin in json.loads(done.stdout)}
    assert {"simulator", "gateway_kinds", "evolution_envelope", "message_filters"} <= names


def test_dead_letters_can_be_listed_and_sent_again(server: Server, receiver: ReceiverProcess) -> None:
    server.set("cli-dead", receiver.url("/status/422"))
    ids = [server.command("emit", "cli-dead", "CALL", "--data", f'{{"n": {n}}}')["ids"][0] for n in range(3)]
    found: list[str] = []
    while len(found) < 3:
        dead = server.command("delivery", "dead", "cli-dead")
        found = [letter["eventId"] for letter in dead["deliveries"]]
    assert found == ids[::-1]
    server.set("cli-dead", receiver.url("/cli-dead"))
    assert server.command("delivery", "resend", "cli-dead", ids[1])["eventId"] == ids[1]
    assert receiver.next("/cli-dead").headers["webhook-id"] == ids[1]
    assert server.command("delivery", "replay", "cli-dead", "--since", "1h") == {"replayed": 2}
    assert [receiver.next("/cli-dead").headers["webhook-id"] for _ in range(2)] == [ids[0], ids[2]]


def waiting_lane(server: Server, instance: str) -> Any:
    """Return the instance's lane from ``hookgw lane list`` once it waits for the next attempt."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        lanes = server.get("/lane/list")  # not the command, which takes its time to start
        if any((lane["instance"], lane["state"]) == (instance, "waiting") for lane in lanes):
            lanes = server.command("lane", "list")
            lane = next(lane for lane in lanes if lane["instance"] == instance)
            if lane["head"] is not None:  # not between two deliveries
                return lane
    raise AssertionError(f"the lane of {instance} does not wait")


def test_the_event_that_upsets_a_proxy_is_skipped(server: Server, receiver: ReceiverProcess) -> None:
    path = "/proxy/cli-skip"
    server.set("cli-skip", receiver.url(path))
    bad = server.emit("cli-skip", "CALL", {"text": "poison"})
    good = server.emit("cli-skip", "CALL", {"text": "hello"})
    lane = waiting_lane(server, "cli-skip")
    assert "502 Bad Gateway" in lane["lastError"]
    # The table of the lanes has the id to skip.
    skipped = server.command("delivery", "cancel", "cli-skip", lane["head"])
    assert (skipped["eventId"], skipped["state"]) == (bad, "dead")
    assert skipped["reason"].startswith("Cancelled")
    while (arrival := receiver.next(path)).headers["webhook-id"] == bad:
        pass
    assert arrival.headers["webhook-id"] == good
    server.set("cli-skip", receiver.url("/cli-skip"))
    server.command("delivery", "resend", "cli-skip", lane["head"])
    assert receiver.next("/cli-skip").headers["webhook-id"] == bad


def test_a_refused_address_is_named_and_repaired(server: Server, receiver: ReceiverProcess) -> None:
    server.set("cli-blocked", "http://10.0.0.5/hook")
    ids = [server.emit("cli-blocked", "CALL", {"n": n}) for n in range(3)]
    lane = waiting_lane(server, "cli-blocked")
    assert lane["lastOutcome"] == "blocked"
    assert 'set delivery.allow_networks: ["10.0.0.5/32"]' in lane["lastError"]
    server.command("webhook", "update", "cli-blocked", "--url", receiver.url("/cli-blocked"))
    assert [receiver.next("/cli-blocked").headers["webhook-id"] for _ in ids] == ids
