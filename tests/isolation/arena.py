"""One attack: a gateway, a victim and an attacker as three processes, and what came of it."""

import json
import os
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec

from tests.bench.parts import ROOT, scratch
from tests.isolation import attacker, victim
from tests.isolation.attack import Attack
from tests.isolation.report import Figures
from tests.support.gateway_process import KEY, write_config
from tests.support.processes import Process, started

QUIET = 2.0
"""Seconds for which the victim is alone."""
PREPARATION = 120.0
"""Seconds that the preparation of an attack may take."""
END = 45.0
"""Seconds after an attack within which attacker and victim must report."""

_MAIN = """
from hookgw.command.group import main
main(prog_name="hookgw")
"""


def run(attack: Attack, *, seconds: float, full: bool, steps: bool = False) -> Figures:
    """Run one attack.

    Args:
        attack: which one.
        seconds: how long it may take after its preparation.
        full: whether it has its full size.
        steps: whether to measure the steps of the gateway's event loop; see :mod:`tests.isolation.stepped`.
    """
    with scratch() as folder:
        if attack.plugin is not None:
            (folder / "plugins").mkdir(mode=0o700)
            (folder / "plugins" / "hostile.py").write_text(attack.plugin, encoding="utf-8")
        config = write_config(folder, **attack.settings)
        command: list[str | Path] = ["-m", "hookgw"]
        if attack.before:
            command = ["-c", attack.before + _MAIN]
        elif steps:
            command = ["-m", "tests.isolation.stepped"]
        environment = {"PYTHONPATH": str(ROOT)}
        with started([*command, "serve", "--config", config], cwd=folder, env=environment) as gateway:
            url = gateway.line_with(" listening on ").rsplit(" ", 1)[1]
            port = str(urlsplit(url).port)
            arguments = [str(Path(attacker.__file__)), port, KEY, attack.name, str(seconds), *["full"] * full]
            try:
                with started(
                    [str(Path(victim.__file__)), port, KEY, attack.victim], cwd=ROOT, env=environment
                ) as prey:
                    prey.line_with("ready")
                    with started(arguments, cwd=ROOT, env=environment) as hunter:
                        figures = _measure(gateway, prey, hunter, seconds)
            except AssertionError as error:
                return Figures(failure=_cause(gateway, error))
            if gateway.popen.poll() is not None:
                return Figures(failure=f"the gateway ended with {gateway.popen.poll()}")
            if attack.blocks and not _reports_blocked_loop(url):
                return Figures(failure="the blocked loop was not reported")
            longest: list[str] = []
            if steps and not attack.before:
                gateway.stop()
                longest = [line for line in gateway.rest() if line.startswith("step ")]
            return msgspec.structs.replace(figures, blocks=attack.blocks, steps=longest)


def _measure(gateway: Process, prey: Process, hunter: Process, seconds: float) -> Figures:
    _say(prey, "quiet")
    _watch(gateway, QUIET)
    rest = _resident(gateway)
    _say(prey, "prepared")
    hunter.line_with("ready", PREPARATION)
    _say(prey, "attacked")
    _say(hunter, "go")
    used = _processor_seconds(gateway)
    peak = max(_watch(gateway, seconds), rest)
    used = _processor_seconds(gateway) - used
    counts = json.loads(hunter.line(END))
    _say(prey, "end")
    seen = msgspec.json.decode(prey.line(END), type=victim.Report)
    phases = seen.phases
    return Figures(
        answered=(phases["quiet"].answered, phases["attacked"].answered),
        delivered=(phases["quiet"].delivered, phases["attacked"].delivered),
        healthz=max(phase.healthz for name, phase in phases.items() if name in ("prepared", "attacked")),
        refused=seen.refused,
        lost=seen.lost,
        memory=(rest, max(peak, _resident(gateway))),
        counts=counts,
        processor=used / seconds,
    )


def _say(process: Process, word: str) -> None:
    assert process.popen.stdin is not None
    try:
        process.popen.stdin.write(f"{word}\n")
        process.popen.stdin.flush()
    except BrokenPipeError:
        raise AssertionError("it ended") from None


def _watch(gateway: Process, seconds: float) -> float:
    """Wait that long, and return the most memory that the gateway had."""
    deadline, most = time.monotonic() + seconds, 0.0
    while time.monotonic() < deadline:
        most = max(most, _resident(gateway))
        time.sleep(0.05)
    return most


def _resident(gateway: Process) -> float:
    try:
        pages = int(Path(f"/proc/{gateway.popen.pid}/statm").read_text(encoding="ascii").split()[1])
    except (FileNotFoundError, IndexError, ProcessLookupError):
        raise AssertionError("the gateway ended") from None
    return pages * 4096 / 2**20


def _processor_seconds(gateway: Process) -> float:
    try:
        fields = (
            Path(f"/proc/{gateway.popen.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        )
    except (FileNotFoundError, ProcessLookupError):
        raise AssertionError("the gateway ended") from None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _cause(gateway: Process, error: AssertionError) -> str:
    """A cell of the table; the whole story goes to standard error."""
    if (code := gateway.popen.poll()) is not None:
        return f"the gateway ended with {code}"
    return str(error).replace("\n", " ").replace("|", "¦")[-300:]


def _reports_blocked_loop(url: str) -> bool:
    metrics = httpx.get(f"{url}/metrics", headers={"apikey": KEY}, trust_env=False).text
    return any(
        line.startswith("hookgw_loop_blocked_total") and not line.endswith(" 0.0")
        for line in metrics.splitlines()
    )
