"""Routes of one subject: their handlers are methods, each below its paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from quart import Blueprint

if TYPE_CHECKING:
    from hookgw.app.gateway import Gateway

View = TypeVar("View", bound=Callable[..., Any])

_ATTRIBUTE = "__hookgw_rules__"


def route(method: str, *paths: str) -> Callable[[View], View]:
    """Declare a method and paths of a handler; one with several methods has several of these."""

    def declare(view: View) -> View:
        rules = [(method, path) for path in paths]
        # The decorator that is read first is called last.
        setattr(view, _ATTRIBUTE, rules + getattr(view, _ATTRIBUTE, []))
        return view

    return declare


def labelled(method: str, path: str) -> Callable[[View], View]:
    """Declare a path that also exists with a trailing label; see :func:`route`."""
    return route(method, path, f"{path}/<label>")


class RouteGroup:
    """The handlers of one gateway. They are added in the order of the class."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._limit = gateway.settings.server.max_body

    def blueprint(self) -> Blueprint:
        blueprint = Blueprint(type(self).__name__, __name__)
        for name, view in vars(type(self)).items():
            for method, path in getattr(view, _ATTRIBUTE, ()):
                blueprint.add_url_rule(path, view_func=getattr(self, name), methods=[method])
        return blueprint
