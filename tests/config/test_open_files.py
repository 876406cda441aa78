import resource

import pytest

from tests.public.config import MOST_OPEN_FILES as MOST
from tests.public.config import OpenFiles, divide_open_files


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (512, (256, 192, 64)),
        (1024, (512, 384, 128)),
        (16_384, (4096, 10_240, 2048)),
        (2**20, (4096, 2**20 - 8192, 4096)),
        (resource.RLIM_INFINITY, (4096, 2**20 - 8192, 4096)),
        (64, (32, 16, 16)),
        (1, (1, 1, 0)),
    ],
)
def test_the_open_files_are_divided(
    limit: int, expected: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert divide_open_files(4096) == expected


def test_what_clients_may_not_use_is_for_lanes() -> None:
    assert divide_open_files(10, 1024) == OpenFiles(10, 886, 128)
    assert sum(divide_open_files(10, MOST)) == MOST
