"""The planted bugs: every patch still applies. ``python -m tests.simulation.planted`` finds them."""

import subprocess
from pathlib import Path

import pytest

from tests.simulation.planted import ROOT, description, patches


def test_there_are_enough() -> None:
    assert len(patches()) >= 25


@pytest.mark.parametrize("patch", patches().values(), ids=patches())
def test_a_patch_applies(patch: Path) -> None:
    """If not, the code has changed: plant the same bug in the new code."""
    assert description(patch).endswith((".", ")"))
    check = ["git", "apply", "--check", str(patch)]
    subprocess.run(check, cwd=ROOT, check=True)
