"""The planted bugs: every patch still applies. ``python -m tests.simulation.planted`` finds them."""

import subprocess
from pathlib import Path

import pytest

from tests.simulation.planted import ROOT, description, find_by_tests, finding_tests, patches


def test_there_are_enough() -> None:
    assert len(patches()) >= 25


@pytest.mark.parametrize("patch", patches().values(), ids=patches())
def test_a_patch_applies(patch: Path) -> None:
    """If not, the code has changed: plant the same bug in the new code."""
    assert description(patch).endswith((".", ")"))
    check = ["git", "apply", "--check", str(patch)]
    subprocess.run(check, cwd=ROOT, check=True)


TESTED = {name: patch for name, patch in patches().items() if finding_tests(patch)}


@pytest.mark.process
@pytest.mark.parametrize("patch", TESTED.values(), ids=TESTED)
def test_the_tests_that_a_patch_names_find_it(patch: Path) -> None:
    tests = finding_tests(patch)
    assert tests is not None
    assert find_by_tests(patch, tests) == (1, Path(tests).name)
