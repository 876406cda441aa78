"""Event kinds, connectors and options that break a rule: they stop the start, or switch their plugin off."""

import inspect
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn
from unittest.mock import AsyncMock

import pytest
import yaml

from hookgw import EventKind, Gateway, Invalid, hookimpl
from hookgw.testing import FakeConnector
from tests.public.app import open_gateway
from tests.public.config import Settings, load_settings
from tests.public.kernel import StartError
from tests.public.plugins import Hooks, check_connector, check_kind
from tests.support.application import create_app
from tests.support.broken_plugins import PLUGINS, write_plugin


def settings_of(base: Path, **plugins: Any) -> Settings:
    """Write the configuration of a gateway in a folder, and load it."""
    file = base / "config.yaml"
    file.write_text(yaml.safe_dump({"plugins": plugins, "storage": {"path": str(base / "data.db")}}))
    return load_settings(file, {})


def serve_app(gateway: Gateway) -> None:
    create_app(gateway)


@pytest.mark.parametrize(("hook", "why"), PLUGINS.values(), ids=PLUGINS)
async def test_the_start_fails_with_the_same_sentence(tmp_path: Path, hook: str, why: str) -> None:
    write_plugin(tmp_path, hook)
    with pytest.RaisesGroup(
        pytest.RaisesExc(StartError, match=r"^Plugin 'mine' failed in hookgw_"),
        allow_unwrapped=True,
        flatten_subgroups=True,
    ) as caught:
        async with open_gateway(settings_of(tmp_path), base=tmp_path, prepare=serve_app):
            pass
    (error,) = getattr(caught.value, "exceptions", [caught.value])
    assert why in str(error)
    # Routes need a gateway, and a gateway needs its data.
    assert "routes" in hook or not (tmp_path / "data.db").exists()


@pytest.mark.parametrize(("hook", "why"), PLUGINS.values(), ids=PLUGINS)
async def test_an_optional_plugin_is_switched_off_with_everything_that_it_provides(
    tmp_path: Path, hook: str, why: str
) -> None:
    write_plugin(tmp_path, hook)
    settings = settings_of(tmp_path, optional=["mine"])
    async with open_gateway(settings, base=tmp_path, prepare=serve_app) as gateway:
        assert {kind.plugin for kind in gateway.catalog} == {"", "gateway_kinds"}
        with pytest.raises(Invalid, match=r"Known connectors: .*matrix, simulator"):
            await gateway.instances.create("shop", integration="good")
        assert [page.plugin for page in gateway.hooks.dashboard_pages()] == ["alerts"]
        assert not gateway.hooks.implements("hookgw_lane_state")
        (info,) = [info for info in gateway.hooks.plugins() if info.name == "mine"]
    assert info.enabled is False
    assert why in (info.error or "")


async def test_a_whole_plugin_starts(tmp_path: Path) -> None:
    write_plugin(tmp_path, "def hookgw_delivered(delivery): ...")
    async with open_gateway(settings_of(tmp_path), base=tmp_path) as gateway:
        assert [kind.name for kind in gateway.catalog if kind.plugin == "mine"] == ["MINE"]
        assert "good" in gateway.hooks.connectors()
        assert ("mine", "mine") in [(page.plugin, page.path) for page in gateway.hooks.dashboard_pages()]


def test_the_sentence_has_one_line_whatever_the_plugin_raises(hooks_of: Callable[..., Hooks]) -> None:
    def hookgw_connectors() -> None:
        raise ValueError("one\ntwo")

    with pytest.raises(StartError, match="ValueError: one two"):
        hooks_of(mine=SimpleNamespace(hookgw_connectors=hookimpl(hookgw_connectors))).connectors()


def test_one_plugin_less_can_end_the_conflict_of_another(hooks_of: Callable[..., Hooks]) -> None:
    def provider(name: str) -> SimpleNamespace:
        return SimpleNamespace(
            hookgw_event_kinds=hookimpl(lambda: [EventKind(name=name, meaning="X.")]),
            hookgw_connectors=hookimpl(lambda: [FakeConnector()]),
        )

    # The second is in conflict with the first; the third would be in conflict only with the second.
    hooks = hooks_of(optional=("b",), a=provider("ONE"), b=provider("ONE"))
    assert [(kind.name, kind.plugin) for kind in hooks.kinds()] == [("ONE", "a")]
    assert list(hooks.connectors()) == ["fake"]


class Name(StrEnum):
    PAID = "ORDER_PAID"


def test_what_is_kept_of_a_kind_is_a_plain_copy() -> None:
    schema: dict[str, Any] = {"enum": [1, (Name.PAID,)]}
    kept = check_kind(EventKind(name=Name.PAID, meaning="X.", schema=schema, example=1, aliases=[Name.PAID]))  # type: ignore[arg-type]
    schema.clear()
    assert kept == EventKind(
        name="ORDER_PAID",
        meaning="X.",
        schema={"enum": [1, ["ORDER_PAID"]]},
        example=1,
        aliases=("ORDER_PAID",),
    )
    assert type(kept.name) is type(kept.aliases[0]) is type(kept.schema["enum"][1][0]) is str


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any) -> Any:
        return function(*arguments)

    return call


class AsyncObject:
    async def __call__(self, session: Any) -> None: ...


def test_async_functions_in_other_forms_are_accepted() -> None:
    connector = FakeConnector()
    connector.send = decorated(connector.send)  # type: ignore[method-assign]
    for run in (AsyncObject(), partial(connector.run), decorated(connector.run), AsyncMock()):
        connector.run = run  # type: ignore[method-assign]
        assert check_connector(connector).methods["run"] is run


@pytest.mark.parametrize("error", [TypeError, ValueError])
def test_a_function_that_does_not_tell_its_arguments_is_accepted(error: type[Exception]) -> None:
    """A compiled function, and in Python 3.11.2, which is Debian's, an ``AsyncMock``."""

    class Silent(AsyncObject):
        @property
        def __signature__(self) -> NoReturn:
            raise error

    connector = FakeConnector()
    connector.run = run = Silent()  # type: ignore[method-assign]
    with pytest.raises(error):
        inspect.signature(run)
    assert check_connector(connector).methods["run"] is run


LAZY = """
from typing import TYPE_CHECKING

import hookgw

if TYPE_CHECKING:
    from hookgw import Event, Outgoing, PluginGateway, Session, TextMessage
    from elsewhere import Html


@hookgw.hookimpl
def hookgw_filter(event: Event) -> bool | None:
    return None


@hookgw.hookimpl
def hookgw_connectors():
    return [Lazy()]


@hookgw.hookimpl
def hookgw_destinations():
    return {"lazy": post}


@hookgw.hookimpl
def hookgw_dashboard_pages():
    return [hookgw.DashboardPage(title="Lazy", path="lazy", render=render)]


class Lazy:
    name = "lazy"

    async def run(self, session: Session) -> None:
        pass

    async def send(self, session: Session, message: TextMessage, *, key: str) -> None:
        pass


async def post(outgoing: Outgoing) -> Html:
    pass


async def render(gateway: PluginGateway, query: dict[str, str]) -> Html:
    pass
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="Python evaluates annotations at the definition")
async def test_annotations_may_name_types_that_are_imported_for_type_checkers_alone(tmp_path: Path) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "lazy.py").write_text(LAZY)
    async with open_gateway(settings_of(tmp_path), base=tmp_path, prepare=serve_app) as gateway:
        await gateway.instances.create("shop", integration="lazy")
