"""hookgw's test kit as pytest fixtures.

They need pytest-trio (its ``trio_mode`` or the ``trio`` marker). ``docs/testing.md`` has examples.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

# If hookgw is installed, pytest imports this module at every start, even for other projects. Therefore only
# the fixtures import Trio and the gateway.
if TYPE_CHECKING:
    from trio.testing import MockClock

    from hookgw.testing.kit import GatewayKit
    from hookgw.testing.receiver import Receiver


def run_on(clock: MockClock, request: pytest.FixtureRequest) -> MockClock:
    """Run a test on a clock. pytest-trio alone finds a clock only among the test's own arguments."""
    import trio

    def run(main: Any, *, clock: Any = None, **options: Any) -> Any:
        return trio.run(main, clock=clock or chosen, **options)

    chosen = clock
    if iscoroutinefunction(request.function):
        request.node.add_marker(pytest.mark.trio(run=run), append=False)
    return clock


@pytest.fixture
def hookgw_clock(request: pytest.FixtureRequest) -> MockClock:
    """Trio's mock clock. A test runs on it that has this argument, or another fixture that has it."""
    from trio.testing import MockClock

    return run_on(MockClock(), request)


@pytest.fixture
async def hookgw_receiver() -> AsyncIterator[Receiver]:
    """A running :class:`hookgw.testing.Receiver` that answers 200 by default."""
    from hookgw.testing.receiver import open_receiver

    async with open_receiver() as receiver:
        yield receiver


@pytest.fixture
def hookgw_plugins() -> Mapping[str, object]:
    """The plugins of :func:`hookgw_gateway`, by name. Override this fixture with your own."""
    return {}


@pytest.fixture
def hookgw_settings() -> Mapping[str, Any]:
    """The configuration of :func:`hookgw_gateway`, as in its YAML file. Override this fixture."""
    return {}


@pytest.fixture
async def hookgw_gateway(
    tmp_path: Path,
    hookgw_clock: MockClock,  # noqa: ARG001 -- the test runs on it
    hookgw_plugins: Mapping[str, object],
    hookgw_settings: Mapping[str, Any],
) -> AsyncIterator[GatewayKit]:
    """A running :class:`hookgw.testing.GatewayKit`, on :func:`hookgw_clock`."""
    from hookgw.testing.kit import open_kit

    async with open_kit(tmp_path, plugins=hookgw_plugins, settings=hookgw_settings) as kit:
        yield kit
