"""When an attack counts as harmless, and how the table says so."""

import msgspec
import pytest

from tests.isolation.report import HEADER, Figures, row, shortcomings

HELD = Figures(
    answered=(0.004, 0.012), delivered=(0.04, 0.12), healthz=0.2, memory=(70.0, 646.0), counts={"202": 5}
)


def test_an_attack_at_the_limits_is_harmless() -> None:
    assert shortcomings(HELD) == []
    assert row("name", "what", HELD) == (
        "| name | what | 4 → 12 ms | 40 → 120 ms | 0 | 0 | 200 ms | 70 → 646 MiB | held |"
    )


@pytest.mark.parametrize(
    ("changes", "shortcoming"),
    [
        ({"answered": (0.004, 0.101)}, "answers are late"),
        ({"delivered": (0.04, 0.121)}, "deliveries are late"),
        ({"healthz": 0.21}, "healthz is slow"),
        ({"refused": {"emit: 503": 2}}, "refused 2x emit: 503"),
        ({"lost": 1}, "1 lost"),
        ({"memory": (70.0, 647.0)}, "too much memory"),
        ({"failure": "the gateway ended with 1"}, "the gateway ended with 1"),
    ],
)
def test_each_limit(changes: dict[str, object], shortcoming: str) -> None:
    figures = msgspec.structs.replace(HELD, **changes)
    assert shortcomings(figures) == [shortcoming]
    assert row("name", "what", figures).endswith(f"| {shortcoming} |")


def test_a_plugin_that_blocks_is_judged_by_what_it_loses() -> None:
    blocked = msgspec.structs.replace(
        HELD, blocks=True, answered=(0.004, 3.0), delivered=(0.04, 3.0), healthz=3.0
    )
    assert shortcomings(blocked) == []
    assert row("name", "what", blocked).endswith("| held, and reported |")
    assert shortcomings(msgspec.structs.replace(blocked, lost=1)) == ["1 lost"]


def test_every_row_has_the_cells_of_the_header() -> None:
    cells = HEADER.splitlines()[0].count("|")
    for figures in (HELD, Figures(failure="it ended")):
        assert row("name", "what", figures).count("|") == cells
