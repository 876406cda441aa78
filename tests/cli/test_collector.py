from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from hookgw.cli.collector import YOUNGEST, tune_garbage_collector


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_only_the_youngest_generation_is_looked_at_less_often() -> None:
    _, *older = gc.get_threshold()
    tune_garbage_collector()
    assert gc.get_threshold() == (YOUNGEST, *older)
    assert gc.isenabled()
