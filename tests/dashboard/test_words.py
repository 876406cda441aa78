from typing import get_args

from hookgw.records import WaitsFor
from hookgw.site import WAITS


def test_every_wait_of_a_lane_has_words() -> None:
    assert {*WAITS} == {*get_args(WaitsFor)}
