"""``python -m tests.bench``: hookgw's speed and size, each measure beside its reference.

Nothing is judged here: the numbers of two runs are compared by whoever reads them.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
import trio
from rich.console import Console
from rich.table import Table

from tests.bench import (
    against,
    backup,
    beside_flood,
    changes,
    dashboards,
    engine,
    fleet,
    growth,
    isolation,
    log_costs,
    over_http,
    scale,
)
from tests.bench.compare import compare
from tests.bench.parts import ROOT, scratch
from tests.bench.references import fsync_p50
from tests.bench.results import Report, Result


class Measure(NamedTuple):
    """A measure and how long it may take, in seconds, quick and full."""

    run: Callable[[bool], list[Result]]
    quick_deadline: float = 90.0
    full_deadline: float = 300.0


def _in_trio(measure: Callable[[bool], Awaitable[list[Result]]]) -> Callable[[bool], list[Result]]:
    return lambda full: trio.run(measure, full)


MEASURES = {
    "many-lanes": Measure(_in_trio(engine.many_lanes)),
    "one-lane": Measure(_in_trio(engine.one_lane)),
    "flaky-receiver": Measure(_in_trio(engine.flaky_receiver)),
    "latency": Measure(_in_trio(engine.latency)),
    "emit-one": Measure(over_http.emit_one),
    "emit-batches": Measure(over_http.emit_batches),
    "ingest": Measure(over_http.ingest),
    "isolation": Measure(_in_trio(isolation.isolation), 90.0, 180.0),
    "beside-flood": Measure(beside_flood.beside_flood, 120.0, 300.0),
    "growth": Measure(growth.growth, 120.0, 600.0),
    "lanes-at-rest": Measure(_in_trio(scale.lanes_at_rest)),
    "active-lanes": Measure(_in_trio(scale.active_lanes), 90.0, 300.0),
    "registrations": Measure(_in_trio(scale.registrations), 90.0, 600.0),
    "long-backlog": Measure(_in_trio(scale.long_backlog), 120.0, 900.0),
    "log": Measure(_in_trio(log_costs.log_costs), 120.0, 600.0),
    "backup": Measure(_in_trio(backup.backup), 90.0, 300.0),
    "changes": Measure(_in_trio(changes.changes), 120.0, 120.0),
    "dashboards": Measure(dashboards.dashboards, 120.0, 300.0),
    "fleet": Measure(fleet.fleet, 300.0, 600.0),
}


@click.command()
@click.option("--full", is_flag=True, help="The sizes of the targets: minutes in the place of seconds.")
@click.option("--only", multiple=True, type=click.Choice(list(MEASURES)), help="This measure; repeatable.")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Write the report as JSON.")
@click.option(
    "--compare",
    "reports",
    nargs=2,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Measure nothing; show what changed between two reports.",
)
@click.option("--against", "commit", help="Measure nothing else: the engine and that of a commit, in turn.")
@click.option("--write", is_flag=True, help="Put the table of the measure fleet into docs/performance.md.")
@click.option("--measure", type=click.Choice(list(MEASURES)), hidden=True)
def main(
    full: bool,
    only: tuple[str, ...],
    save: Path | None,
    reports: tuple[Path, Path] | None,
    commit: str | None,
    write: bool,
    measure: str | None,
) -> None:
    """Measure hookgw beside its references; a table for people, JSON with --save.

    Each measure runs in a process of its own, one after the other, within a deadline. Exit code 1 if one
    of them failed.
    """
    if measure:
        click.echo(msgspec.json.encode(MEASURES[measure].run(full)))
        return
    if reports:
        _show_changes(*(msgspec.json.decode(file.read_bytes(), type=Report) for file in reports))
        return
    results: list[Result] = against.against(commit, full) if commit else []
    failures: dict[str, str] = {}
    for name in () if commit else only or MEASURES:
        click.echo(f"{name} …", err=True)
        try:
            results += _in_own_process(name, full)
        except (subprocess.SubprocessError, msgspec.DecodeError) as error:
            failures[name] = str(error)
    report = Report(machine=_machine(), size="full" if full else "quick", results=results, failures=failures)
    if save is not None:
        save.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    _show(report)
    if write:
        fleet.write(results, report.machine)
    sys.exit(1 if failures else 0)


def _in_own_process(name: str, full: bool) -> list[Result]:
    command = [sys.executable, "-m", "tests.bench", "--measure", name, *(["--full"] if full else [])]
    deadline = MEASURES[name].full_deadline if full else MEASURES[name].quick_deadline
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=deadline, check=True)
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=list[Result])


def _machine() -> dict[str, str | float]:
    with scratch() as folder:
        fsync = fsync_p50(folder)
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": float(len(os.sched_getaffinity(0))),
        "load": os.getloadavg()[0],
        "fsync_ms": fsync * 1e3,
    }


def _show(report: Report) -> None:
    console = Console()
    facts = ", ".join(f"{name} {_number(fact)}" for name, fact in report.machine.items())
    table = Table("measure", "hookgw", "reference", "ratio", "what the reference is", title=facts)
    for result in report.results:
        value, reference = _number(result.value), _number(result.reference_value)
        ratio = f"{result.ratio:.2f}"
        table.add_row(result.name, f"{value} {result.unit}", reference, ratio, result.reference)
    console.print(table)
    for result in report.results:
        details = ", ".join(f"{name} {_number(number)}" for name, number in result.details.items())
        console.print(f"{result.name}: {details}", highlight=False, soft_wrap=True)
    for name, reason in report.failures.items():
        console.print(f"{name} failed: {reason}", style="red", markup=False, soft_wrap=True)


def _show_changes(before: Report, after: Report) -> None:
    console = Console()
    table = Table("measure", "before", "after", "ratio before", "ratio after", "gain")
    for change in compare(before, after):
        numbers = (change.before, change.after, change.ratio_before, change.ratio_after, change.gain)
        cells = ["–" if number is None else _number(number) for number in numbers]
        table.add_row(f"{change.name}, {change.unit}", *cells)
    console.print(table)
    if before.size != after.size:
        console.print(f"The sizes differ: {before.size} and {after.size}.", style="yellow")


def _number(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    main()
