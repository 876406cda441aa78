"""Which lanes a list shows, and in which order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.public.records import LANE_SORTS, LaneState, LaneStatistics, ReportedLane, first_lanes

LANES = [
    ReportedLane(
        LaneStatistics(
            lane=f"reg_{number:02}:0",
            registration=f"reg_{number:02}",
            partition=None,
            url=None,
            state=LaneState.WAITING,
            backlog=7,
        ),
        f"loja{19 - number:02}",
        "crm",
    )
    for number in range(20)
]


@pytest.mark.parametrize("sort", [*LANE_SORTS, "-pending"])
@given(lanes=st.permutations(LANES))
def test_lanes_that_are_alike_have_one_order(sort: str, lanes: list[ReportedLane]) -> None:
    # Otherwise rows jump, and a lane is on two pages or on none.
    assert first_lanes(lanes, sort, 10) == first_lanes(LANES, sort, 10)


def test_lanes_that_are_as_urgent_are_by_name() -> None:
    assert first_lanes(LANES, "", 20) == LANES[::-1]
