"""What the fuzzer kept is tried in every run, so that what was found once stays found."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.targets import CORPUS, TARGETS

KEPT = [
    pytest.param(name, path, id=f"{name}/{path.name}")
    for name, target in TARGETS.items()
    for path in target.kept()
]


@pytest.mark.parametrize(("name", "path"), KEPT)
def test_what_was_kept_is_still_right(name: str, path: Path) -> None:
    TARGETS[name].check(path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.binary(max_size=64))
def test_bytes_without_any_sense_are_right(name: str, data: bytes) -> None:
    TARGETS[name].check(data)


def test_every_target_has_a_corpus_of_small_files() -> None:
    assert {path.name for path in CORPUS.iterdir()} == TARGETS.keys()
    for name, target in TARGETS.items():
        sizes = [path.stat().st_size for path in target.kept()]
        assert 5 <= len(sizes) <= 80, name
        assert max(sizes) <= 4096, name
