"""Not even a power cut: in recorded runs, whatever the disk did with writes that were not synchronized."""

import os

import pytest

from tests.simulation.power.kinds import KINDS, PLANTED_IN
from tests.simulation.power.plants import PLANTS
from tests.simulation.power.runs import check_recording, find_failure
from tests.simulation.power.tracing import CannotTrace, try_tracing

pytestmark = pytest.mark.process

STATES = {"work": 50, "server": 20, "erasure": 20, "migration": 20, "encryption": 15, "restore": 15}
"""How many states of a run are looked at, by its kind. ``python -m tests.simulation.power`` has more."""

# Found in a few states; ``python -m tests.simulation.power --plants`` looks for all of them.
QUICKLY_FOUND = (
    "synchronous NORMAL",
    "checkpoints without a sync",
    "an answer before the commit",
    "a backup without a sync of its file",
    "a copy before a migration without a sync of its file",
)


@pytest.fixture(scope="module", autouse=True)
def tracing() -> None:
    try:
        try_tracing()
    except CannotTrace as error:
        if os.environ.get("CI"):  # a promise without its proof
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize("kind", STATES)
def test_a_power_cut_loses_nothing(kind: str) -> None:
    failures = check_recording(KINDS[kind](1, "nothing"), STATES[kind], seed=1)
    assert [failure[:4] for failure in failures] == []


@pytest.mark.parametrize("plant", QUICKLY_FOUND)
def test_a_planted_fault_is_found(plant: str) -> None:
    assert find_failure(KINDS[PLANTED_IN[plant]](1, plant), 600, seed=1) is not None


def test_every_planted_fault_has_a_kind() -> None:
    assert PLANTED_IN.keys() == PLANTS.keys() - {"nothing"}
