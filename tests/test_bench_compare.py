"""Two reports of the bench side by side."""

from pathlib import Path
from typing import Literal

import msgspec
from click.testing import CliRunner

from tests.bench.__main__ import main
from tests.bench.compare import compare
from tests.bench.results import Report, Result


def result(name: str, value: float, reference: float, better: Literal["more", "less"] = "more") -> Result:
    return Result(name=name, value=value, unit="x", reference="r", reference_value=reference, better=better)


def report(*results: Result, size: str = "quick") -> Report:
    return Report(machine={}, size=size, results=list(results), failures={})


def test_the_gain_is_of_the_ratios_and_knows_what_is_better() -> None:
    before = report(result("rate", 100, 10), result("p99", 8, 4, "less"), result("gone", 1, 1))
    after = report(result("rate", 100, 5), result("p99", 8, 8, "less"), result("new", 2, 1))
    changes = {change.name: change for change in compare(before, after)}
    assert list(changes) == ["rate", "p99", "gone", "new"]
    assert (changes["rate"].gain, changes["p99"].gain) == (2.0, 2.0)
    assert (changes["gone"].before, changes["gone"].after, changes["gone"].gain) == (1, None, None)
    assert (changes["new"].before, changes["new"].after, changes["new"].gain) == (None, 2, None)


def test_a_reference_of_nothing_gives_no_gain() -> None:
    [change] = compare(report(result("rate", 1, 0)), report(result("rate", 1, 1)))
    assert change.gain is None


def test_the_command_shows_two_saved_reports(tmp_path: Path) -> None:
    files = []
    for name, value, size in (("a", 100.0, "quick"), ("b", 300.0, "full")):
        files.append(tmp_path / f"{name}.json")
        files[-1].write_bytes(msgspec.json.encode(report(result("rate", value, 10), size=size)))
    shown = CliRunner().invoke(main, ["--compare", *map(str, files)])
    assert shown.exit_code == 0
    assert all(word in shown.output for word in ("rate", "100", "300", "The sizes differ: quick and full"))
