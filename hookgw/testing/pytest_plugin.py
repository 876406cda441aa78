"""The pytest plugin that offers hookgw's test kit as fixtures.

pytest imports it at every start wherever hookgw is installed, so it imports nothing of weight: that
is left to the fixtures, which work with pytest-trio (its ``trio_mode`` or the ``trio`` marker).
``docs/testing.md`` shows them at work.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from trio.testing import MockClock

    from hookgw.testing.kit import GatewayKit
    from hookgw.testing.receiver import Receiver


@pytest.fixture
def hookgw_clock() -> MockClock:
    """Trio's mock clock. pytest-trio uses it where the *test itself* has it among its arguments."""
    from trio.testing import MockClock

    return MockClock()


@pytest.fixture
async def hookgw_receiver() -> AsyncIterator[Receiver]:
    """A running :class:`hookgw.testing.Receiver` that answers 200 until it is told otherwise."""
    from hookgw.testing.receiver import open_receiver

    async with open_receiver() as receiver:
        yield receiver


@pytest.fixture
def hookgw_plugins() -> Mapping[str, object]:
    """The plugins of :func:`hookgw_gateway`, by name; override it with your own."""
    return {}


@pytest.fixture
def hookgw_settings() -> Mapping[str, Any]:
    """The configuration of :func:`hookgw_gateway`, as in its YAML file; override it with your own."""
    return {}


@pytest.fixture
async def hookgw_gateway(
    tmp_path: Path, hookgw_plugins: Mapping[str, object], hookgw_settings: Mapping[str, Any]
) -> AsyncIterator[GatewayKit]:
    """A running gateway, as a :class:`hookgw.testing.GatewayKit`; it needs ``hookgw_clock`` beside it."""
    from hookgw.testing.kit import open_kit

    async with open_kit(tmp_path, plugins=hookgw_plugins, settings=hookgw_settings) as kit:
        yield kit
