"""Fixtures for the tests of plugins: real plugin files, and records to call hooks with."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from hookgw import Event, Registration
from tests.public.config import PluginsSettings
from tests.public.plugins import Hooks, load_plugins


@pytest.fixture
def write_plugin(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a plugin's file below ``tmp_path / "plugins"``."""

    def write(name: str, text: str, folder: str = "plugins") -> Path:
        path = tmp_path / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("import hookgw\n" + textwrap.dedent(text))
        return path

    return write


@pytest.fixture
def event() -> Event:
    return Event(id="msg_1", kind="MESSAGES_UPSERT", instance="shop", data_json=b'{"text":"hello"}', time=1.0)


@pytest.fixture
def registration() -> Registration:
    return Registration(id="reg_1", instance="shop", url="https://app.example/hook")


@pytest.fixture
def hooks_of(tmp_path: Path) -> Callable[..., Hooks]:
    """Return a function that makes hooks of plugin objects, called in the given order."""

    def make(*, optional: tuple[str, ...] = (), **plugins: object) -> Hooks:
        settings = PluginsSettings(first_party=False, folders=(), optional=optional)
        return Hooks(load_plugins(settings, base=tmp_path, extra=plugins))

    return make
