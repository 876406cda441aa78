"""``python -m tests.bench.peers``: hookgw beside other webhook gateways. README.md says how to repeat it."""

import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click
import httpx
import msgspec

from tests.bench.parts import raise_file_limit, receiving, scratch
from tests.bench.peers.account import account
from tests.bench.peers.cells import DESTINATIONS, PAYLOAD, Bench, Cell, Receiver
from tests.bench.peers.convoy import Convoy, LocalConvoy
from tests.bench.peers.evolution import Evolution
from tests.bench.peers.hookgw import HookGW, LocalHookGW
from tests.bench.peers.outpost import LocalOutpost, Outpost
from tests.bench.peers.publish import publish
from tests.bench.peers.svix import Svix
from tests.bench.peers.system import LocalSystem, System
from tests.bench.peers.table import KILLED, OFFERED, THROUGHPUT, table
from tests.bench.peers.webhookx import LocalWebhookX, WebhookX

SYSTEMS: Mapping[str, type[System]] = {
    "hookgw": HookGW,
    "outpost": Outpost,
    "webhookx": WebhookX,
    "convoy": Convoy,
    "svix": Svix,
    "evolution": Evolution,
}
LOCAL: Mapping[str, type[LocalSystem]] = {
    "hookgw": LocalHookGW,
    "outpost": LocalOutpost,
    "webhookx": LocalWebhookX,
    "convoy": LocalConvoy,
}
WARM_UP = 256
"""Events that each system gets after its start, before it is measured."""
FAILURES = (RuntimeError, OSError, AssertionError, httpx.HTTPError, subprocess.SubprocessError)
"""What a system that does not work leads to."""
KILL_RATE, KILL_SECONDS = 200, 6.0
"""Events offered per second while a system is killed, and for how long."""


class Report(msgspec.Struct, kw_only=True):
    """All cells of a run.

    Attributes:
        machine: what it ran on, and when.
        results: the cells by system and by name, one for each round.
    """

    machine: dict[str, str]
    results: dict[str, dict[str, list[Cell]]] = {}


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if name not in SYSTEMS or not value:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE, with a name of {', '.join(SYSTEMS)}.")
    return name, value


class Contestant:
    """A system and the cells that it has to go through."""

    def __init__(
        self, name: str, program: str | None, at: str | None, folder: Path, receiver: Receiver
    ) -> None:
        """Take what is known of the system; nothing is started yet.

        Args:
            name: a key of SYSTEMS.
            program: to start here.
            at: ``URL,CREDENTIAL`` of the system if it runs already.
            folder: where its data go, in a folder of its name.
            receiver: of its destinations.
        """
        if name not in SYSTEMS:
            raise click.UsageError(f"{name} is none of {', '.join(SYSTEMS)}.")
        self.title = f"{SYSTEMS[name].name} {SYSTEMS[name].version}"
        self._receiver = receiver
        self._local: LocalSystem | None = None
        self._bench: Bench | None = None
        if at is not None:
            url, _, key = at.partition(",")
            self._system = SYSTEMS[name](url, key)
        elif program is not None and name in LOCAL:
            (folder / name).mkdir(parents=True)
            (folder / name).chmod(0o755)  # PostgreSQL's user has to get through
            self._local = LOCAL[name](folder / name, Path(program).absolute())
        else:
            raise click.UsageError(f"{name} needs --at" + (" or --program." if name in LOCAL else "."))

    @contextmanager
    def running(self) -> Iterator[Bench]:
        """Run it, if it is not running already, until the end of the block; its destinations exist."""
        try:
            if self._local is not None:
                self._local.start()
                self._system = self._local.system
            if self._bench is None:
                self._bench = Bench(self._system, self._local, self._receiver)
                self._bench.create_destinations()
            warm = self._bench.throughput(DESTINATIONS, DESTINATIONS, 10.0, WARM_UP).account
            if warm.lost or warm.refused:
                raise RuntimeError(f"{self.title} lost events while nothing happened: {warm}")
            yield self._bench
        finally:
            if self._local is not None:
                self._local.stop()

    def cells(self, seconds: float, most: int, *, kill: bool) -> Iterator[tuple[str, Cell]]:
        """Measure all cells, one after the other.

        Args:
            seconds: how long each publishes.
            most: events of a throughput cell.
            kill: whether it is killed at the end, too.
        """
        with self.running() as bench:
            for name, (_, destinations, publishers) in THROUGHPUT.items():
                yield name, bench.throughput(destinations, publishers, seconds, most)
            for name, rate in OFFERED.items():
                yield name, bench.latency(rate, seconds)
            if kill and self._local is not None:
                for name, failing in KILLED.items():
                    yield name, bench.killed(KILL_RATE, KILL_SECONDS, failing=failing)


@click.group()
def main() -> None:
    """Compare hookgw with other webhook gateways, which all get the same load and the same receiver."""


@main.command()
@click.option("--systems", default="hookgw", show_default=True, help="Which, separated by commas.")
@click.option("--program", "programs", multiple=True, type=_pair, help="Where a system's program is.")
@click.option("--at", "running", multiple=True, type=_pair, help="A system that runs: NAME=URL,CREDENTIAL.")
@click.option("--rounds", default=2, show_default=True, help="How often each cell is measured.")
@click.option("--seconds", default=3.0, show_default=True, help="How long each cell publishes.")
@click.option("--most", default=30000, show_default=True, help="Events of a throughput cell, at most.")
@click.option("--kill/--no-kill", default=True, show_default=True, help="Whether systems are killed, too.")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help="For all data; kept.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the table here.")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures as JSON.")
def run(
    systems: str,
    programs: tuple[tuple[str, str], ...],
    running: tuple[tuple[str, str], ...],
    rounds: int,
    seconds: float,
    most: int,
    kill: bool,
    folder: Path | None,
    out: Path | None,
    save: Path | None,
) -> None:
    """Measure systems in alternating rounds, and print the table.

    A system with --program is started and stopped here, with all that it needs; hookgw's is this Python. A
    system with --at runs already, and has no figures of processors, memory and kills. The exit code is 1 if a
    system failed; the others are measured all the same.
    """
    raise_file_limit(4096)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is stopped
    began = time.monotonic()
    report, failed = Report(machine=_machine()), False
    with scratch() as temporary, receiving(module="tests.bench.peers.receiver") as started:
        temporary.chmod(0o755)
        places, receiver = {"hookgw": sys.executable, **dict(programs)}, Receiver(started.port)
        contestants = [
            Contestant(name, places.get(name), dict(running).get(name), folder or temporary, receiver)
            for name in systems.split(",")
        ]
        for contestant in contestants:
            report.results[contestant.title] = {}
        for turn in range(rounds):
            # The other way round each time, so that a machine that gets slower is unfair to nobody.
            for contestant in contestants[:: 1 if turn % 2 == 0 else -1]:
                found = report.results[contestant.title]
                try:
                    for name, cell in contestant.cells(seconds, most, kill=kill and turn == rounds - 1):
                        found.setdefault(name, []).append(cell)
                        _show(time.monotonic() - began, contestant.title, name, cell)
                except FAILURES as error:  # the figures of the others are worth something
                    click.echo(f"{contestant.title} failed: {error}", err=True)
                    contestants.remove(contestant)
                    failed = True
    facts = [f"{name}: {fact}" for name, fact in report.machine.items()]
    text = "\n".join([table(report.results), *facts, f"took: {time.monotonic() - began:.0f} s"]) + "\n"
    click.echo(text)
    if out is not None:
        out.write_text(text)
    if save is not None:
        save.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    sys.exit(1 if failed else 0)


@main.command()
@click.option("--seconds", default=2.0, show_default=True, help="How long each cell publishes.")
def limits(seconds: float) -> None:
    """Measure the load driver and the receiver alone: the most that any system could reach here."""
    with receiving(module="tests.bench.peers.receiver") as started:
        receiver = Receiver(started.port)
        head = f"POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(PAYLOAD)}\r\n\r\n".encode()
        for name, (title, _, publishers) in THROUGHPUT.items():
            if name.startswith("64"):  # destinations make no difference without a system between
                published = publish(started.port, [[head + PAYLOAD]] * publishers, first=0, seconds=seconds)
                result = account(published, receiver.take())
                click.echo(f"{title}: {result.rate:,.0f} events/s, {result.lost} lost")


@main.command("table")
@click.argument("figures", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def show_table(figures: Path) -> None:
    """Print the table of a run again, from what its --save wrote."""
    click.echo(table(msgspec.json.decode(figures.read_bytes(), type=Report).results), nl=False)


def _show(seconds: float, title: str, name: str, cell: Cell) -> None:
    result = cell.account
    figures = f"{result.rate:,.0f}/s, p99 {result.p99 * 1e3:,.1f} ms, {result.inversions} out of order"
    counts = f"{result.accepted} accepted, {result.lost} lost, {result.repeated} repeated"
    others = f"{result.refused} refused, {result.unknown} unknown"
    cpu = "" if cell.cpu is None else f", {cell.cpu:.2f} s of processors"
    click.echo(f"{seconds:5.0f} s {title}, {name}: {figures}; {counts}, {others}{cpu}", err=True)


def _machine() -> dict[str, str]:
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB",
        "load at the start": f"{os.getloadavg()[0]:.1f}",
    }


if __name__ == "__main__":
    main()
