"""The limit of open files is raised as far as the machine allows, and told where that is too low."""

from __future__ import annotations

import resource

import pytest
import structlog.testing

from hookgw.cli.open_files import ENOUGH, raise_file_limit

INFINITY = resource.RLIM_INFINITY


class Limit:
    """A machine's limit, in the place of the real one."""

    def __init__(self, soft: int, hard: int, *, refuses: bool = False) -> None:
        self.soft, self.hard, self.refuses = soft, hard, refuses

    def get(self, _: int) -> tuple[int, int]:
        return self.soft, self.hard

    def set(self, _: int, limits: tuple[int, int]) -> None:
        if self.refuses:
            raise ValueError("not allowed to raise maximum limit")
        self.soft, self.hard = limits


@pytest.mark.parametrize(
    ("limit", "after", "allowed"),
    [
        (Limit(1024, 20_000), (20_000, 20_000), 20_000),
        (Limit(20_000, 20_000), (20_000, 20_000), 20_000),
        (Limit(256, INFINITY), (2**20, INFINITY), 2**20),
        (Limit(INFINITY, INFINITY), (INFINITY, INFINITY), 2**20),
        (Limit(2**21, 2**22), (2**21, 2**22), 2**21),
        (Limit(1024, ENOUGH), (ENOUGH, ENOUGH), ENOUGH),
    ],
)
def test_the_limit_is_raised(
    limit: Limit, after: tuple[int, int], allowed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", limit.get)
    monkeypatch.setattr(resource, "setrlimit", limit.set)
    with structlog.testing.capture_logs() as logged:
        assert raise_file_limit() == allowed
    assert (limit.soft, limit.hard) == after
    assert logged == []


@pytest.mark.parametrize(
    ("limit", "allowed"),
    [
        (Limit(1024, ENOUGH - 1), ENOUGH - 1),
        (Limit(1024, 1024), 1024),
        (Limit(256, INFINITY, refuses=True), 256),
    ],
)
def test_a_low_limit_is_told(limit: Limit, allowed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", limit.get)
    monkeypatch.setattr(resource, "setrlimit", limit.set)
    with structlog.testing.capture_logs() as logged:
        assert raise_file_limit() == allowed
    [line] = logged
    assert (line["log_level"], line["allowed"], line["enough"]) == ("warning", allowed, ENOUGH)
    assert "LimitNOFILE" in line["advice"]
