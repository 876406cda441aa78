"""The table of ``docs/security.md`` has every family, and the families behave as it says."""

import re
from pathlib import Path

import pytest

from tests.security.__main__ import BEGIN, END, PAGE, in_order
from tests.security.families import FAMILIES, HEADER, run
from tests.support.live import running

TABLE = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].splitlines()


def test_the_page_has_every_family_in_order_and_no_surprise() -> None:
    assert TABLE[:2] == HEADER.splitlines()
    rows = [re.split(r" \| |^\| | \|$", line)[1:-1] for line in TABLE[2:]]
    assert [(row[0], row[1]) for row in rows] == [(name, FAMILIES[name].right) for name in in_order()]
    for name, _, tried, _, surprises in rows:
        assert int(tried.replace(",", "")) > 0, name
        assert surprises == "0", name


# Other tests cover the remaining families, which take longer.
QUICK = [
    *("URLs", "headers of registrations", "other protocols", "an offer of h2c"),
    *("names of instances", "configurations", "answers of receivers"),
]


@pytest.mark.parametrize("name", QUICK)
def test_a_family_has_no_surprise(name: str, tmp_path: Path) -> None:
    with running(tmp_path) as live:
        assert run(FAMILIES[name], live).surprises == []
