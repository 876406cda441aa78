from typing import get_args

from tests.public.records import WaitsFor
from tests.public.site import WAITS


def test_every_wait_of_a_lane_has_words() -> None:
    assert {*WAITS} == {*get_args(WaitsFor)}
