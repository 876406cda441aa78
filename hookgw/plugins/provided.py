"""The rules for event kinds, connectors and pages of plugins. No I/O.

Python checks none of the types that a plugin declares, and a plugin may change its objects later. So the
rules are checked once, at start, and hookgw keeps copies that consist of plain values.

The checks run inside the boundary, and raise its :class:`~hookgw.plugins.boundary.WrongResult`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar, get_args

from hookgw.kernel.collaborator import Collaborator
from hookgw.kernel.json_text import decode_strict, encode_strict
from hookgw.kernel.schemes import RESERVED_SCHEMES
from hookgw.plugins.boundary import WrongResult
from hookgw.plugins.results import wrong_type
from hookgw.plugins.signatures import signature_of
from hookgw.records.api_keys import Right
from hookgw.records.dashboard_pages import DashboardPage
from hookgw.records.events import Catalog, Event, EventKind
from hookgw.records.instances import FOREIGN, INSTANCE_NAME
from hookgw.records.messages import Message, TextMessage
from hookgw.records.payload_schemas import SchemaBook, check_schema

T = TypeVar("T")

MAX_NAME = 64
"""Characters of a kind's name, in each of its spellings: they appear in headers, paths and metrics."""

# Not only underscores: the name is a path segment with byEvents.
_NAME = re.compile(rf"(?=_*[A-Z0-9])[A-Z0-9_]{{1,{MAX_NAME}}}", re.ASCII)
_SPELLING = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_NAME - 1}}}", re.ASCII)
_SPELLING_FORM = f"use 1 to {MAX_NAME} letters, digits, '.', '_' and '-', and begin with a letter or a digit"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,31}", re.ASCII)
_PATH = re.compile(rf"[A-Za-z0-9-]{{1,{MAX_NAME}}}", re.ASCII)
# The arguments of a connector's methods; those after "*" are passed by name.
_CONNECTOR_METHODS = {"run": "session", "send": "session, message, *, key"}
OPTIONAL_METHODS = {
    "ingest": "session, request",
    "mark_read": "session, keys",
    "set_presence": "session, presence, *, number, delay",
    "edit": "session, key, text, *, number",
    "delete": "session, key",
    "settings": "session, settings",
    "restart": "session",
    "check_options": "options, *, public_url",
    "logout": "session",
    "remove": "session",
    "find_numbers": "session, numbers",
    "find_picture": "session, number",
    "find_messages": "session, query",
    "list_groups": "session, *, with_participants",
    "find_group": "session, group",
    "media_reference": "session, key",
    "open_media": "session, reference, sink",
}
_SHOWN = 80


class CheckedConnector(Collaborator):
    """The parts of a connector, read once: an attribute of a plugin's object may be a property."""

    name: str
    methods: dict[str, Callable[..., Any]]
    message_types: frozenset[type]
    options_schema: dict[str, Any] | None


def check_callable(answer: object) -> Callable[[], None]:
    if not callable(answer):
        raise WrongResult(f"it must return a function without arguments, not {type(answer).__name__}")
    return answer


def check_list(answer: object, item_type: str, check: Callable[[Any], T]) -> list[T]:
    """Return the checked items of a hook's list; ``None`` counts as an empty list.

    Raises:
        WrongResult: it is not a list, or ``check`` refuses an item.
    """
    if answer is None:
        return []
    if not isinstance(answer, (list, tuple)):
        raise wrong_type(answer, f"a list of {item_type}")
    return [check(item) for item in answer]


def check_kind(kind: object) -> EventKind:  # noqa: C901 -- one rule after the other
    """Return a copy of an event kind, if it follows the rules of ``docs/plugins.md``."""
    if not isinstance(kind, EventKind):
        raise WrongResult(f"its list contains {_type_of(kind)}; return a list of EventKind")
    name = kind.name
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise WrongResult(
            f"{_show(name)} is not a name for an event kind: use 1 to {MAX_NAME} capital letters, digits and "
            "underscores"
        )
    name = str.__str__(name)  # a StrEnum's member, for example, becomes a plain string
    if not isinstance(kind.meaning, str) or not kind.meaning.strip():
        raise WrongResult(f"the meaning of {name} must be a sentence, not {_show(kind.meaning)}")
    if not isinstance(kind.dotted, str) or not (kind.dotted == "" or _SPELLING.fullmatch(kind.dotted)):
        raise WrongResult(f"{name} has the dotted name {_show(kind.dotted)}, but {_SPELLING_FORM}")
    # A string is a sequence of strings, too.
    if not isinstance(kind.aliases, (list, tuple)):
        raise WrongResult(f"the aliases of {name} must be a tuple of names, not {_type_of(kind.aliases)}")
    for alias in kind.aliases:
        if not isinstance(alias, str) or not _SPELLING.fullmatch(alias):
            raise WrongResult(f"{name} has the alias {_show(alias)}, but {_SPELLING_FORM}")
    if kind.operational is not False:
        raise WrongResult(f"{name} is marked as operational; only hookgw's own kinds are. Remove the mark")
    if not isinstance(kind.schema, dict):
        raise WrongResult(f"the schema of {name} must be a dict, not {_type_of(kind.schema)}")
    schema = _json_copy(kind.schema, f"the schema of {name}")
    if problem := check_schema(schema):
        raise WrongResult(f"the schema of {name} is not a valid JSON Schema: {problem}")
    example = _json_copy(kind.example, f"the example of {name}")
    checked = EventKind(
        name=name,
        meaning=_json_copy(kind.meaning, f"the meaning of {name}"),
        schema=schema,
        example=example,
        dotted=str.__str__(kind.dotted),
        aliases=tuple(str.__str__(alias) for alias in kind.aliases),
    )
    sample = Event(id="example", kind=name, instance="", data_json=encode_strict(example), time=0.0)
    if problem := SchemaBook(Catalog([checked])).problem(sample):
        raise WrongResult(f"the example of {name} violates its schema: {problem}")
    return checked


def check_page(page: object) -> DashboardPage:
    if not isinstance(page, DashboardPage):
        raise WrongResult(f"its list contains {_type_of(page)}; return a list of DashboardPage")
    path, title = page.path, page.title
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise WrongResult(
            f"{_show(path)} is not a path for a page: use 1 to {MAX_NAME} letters, digits and '-'"
        )
    path = str.__str__(path)
    if not isinstance(title, str) or not title.strip() or len(title) > MAX_NAME:
        raise WrongResult(f"the title of the page {path} must be a text of 1 to {MAX_NAME} characters")
    _check_page_function("render", page.render, path, "query")
    if page.submit is not None:
        _check_page_function("submit", page.submit, path, "form")
    if not isinstance(page.of_instance, bool):
        raise WrongResult(f"of_instance of the page {path} must be True or False")
    if page.needs is not None and type(page.needs) is not Right:
        raise WrongResult(f"needs of the page {path} must be a hookgw.Right, or None")
    return DashboardPage(
        title=_json_copy(title, f"the title of the page {path}"),
        path=path,
        render=page.render,
        of_instance=page.of_instance,
        submit=page.submit,
        needs=page.needs,
    )


def _check_page_function(name: str, function: object, path: str, argument: str) -> None:
    wanted = f"async def {name}(gateway, {argument})"
    if not callable(function):
        raise WrongResult(f"{name} of the page {path} must be a function: {wanted}")
    try:
        signature_of(function).bind(None, {})
    except TypeError:
        raise WrongResult(f"{name} of the page {path} has other arguments: write {wanted}") from None


def check_destinations(answer: Any) -> dict[str, Callable[..., Any]]:
    """Return the checked functions by their schemes; ``None`` counts as none."""
    if answer is None:
        return {}
    if not isinstance(answer, dict):
        raise wrong_type(answer, "a dict of functions by scheme")
    found = {}
    for scheme, send in answer.items():
        if not isinstance(scheme, str) or not _SCHEME.fullmatch(scheme):
            raise WrongResult(
                f"{_show(scheme)} is not a scheme: use 1 to 32 lower-case letters, digits, '+', '.' and '-', "
                "and begin with a letter"
            )
        scheme = str.__str__(scheme)
        if scheme in RESERVED_SCHEMES:
            raise WrongResult(f"the scheme {scheme} is reserved for hookgw: choose another name")
        if not callable(send) or not _is_async(send):
            raise WrongResult(f"the scheme {scheme} has no async function: write async def send(outgoing)")
        try:
            signature_of(send).bind(None)
        except TypeError:
            raise WrongResult(
                f"the function of the scheme {scheme} has other arguments: write async def send(outgoing)"
            ) from None
        found[scheme] = send
    return found


def check_option_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise WrongResult(f"its list contains {_show(name)}; return a list of the names of options")
    return str.__str__(name)


def check_connector(  # noqa: C901 -- one rule after the other
    connector: Any, reserved: frozenset[str] = frozenset()
) -> CheckedConnector:
    """Return the parts of a connector, if it follows the rules of ``docs/plugins.md``.

    Its options have no ``reserved`` name.
    """
    if inspect.isclass(connector):
        raise WrongResult(f"its list contains the class {connector.__name__}; return an object of it")
    # Duck-typed: a connector need not inherit from anything of hookgw's.
    name = getattr(connector, "name", None)
    methods = {
        method: getattr(connector, method, None) for method in (*_CONNECTOR_METHODS, *OPTIONAL_METHODS)
    }
    if name is None and not any(methods.values()):
        raise WrongResult(f"its list contains {_type_of(connector)}; return a list of Connector")
    if not isinstance(name, str) or not INSTANCE_NAME.fullmatch(name):
        raise WrongResult(
            f"{_show(name)} is not a name for a connector: use 1 to 128 letters, digits, '.', '_' and '-'"
        )
    name = str.__str__(name)
    if name in FOREIGN:
        raise WrongResult(
            f"a connector cannot be called {name}: clients of Evolution API send this name for no connector"
        )
    found: dict[str, Callable[..., Any]] = {}
    for method, arguments in (_CONNECTOR_METHODS | OPTIONAL_METHODS).items():
        function = methods[method]
        if function is None and method in OPTIONAL_METHODS:
            continue
        wanted = f"async def {method}(self, {arguments})"
        if not callable(function):
            raise WrongResult(f"the connector {name} has no method {method}: write {wanted}")
        if not _is_async(function):
            raise WrongResult(f"{method} of the connector {name} is not async: write {wanted}")
        by_place, _, by_name = arguments.partition(", *, ")
        found[method] = function
        try:
            signature = signature_of(function)
        except (TypeError, ValueError):
            # Compiled functions do not tell their arguments, nor does an AsyncMock in Python 3.11.2.
            continue
        try:
            signature.bind(
                *by_place.split(", "), **{argument: None for argument in by_name.split(", ") if argument}
            )
        except TypeError:
            raise WrongResult(
                f"{method} of the connector {name} has other arguments: write {wanted}"
            ) from None
    types = getattr(connector, "message_types", (TextMessage,))
    known = get_args(Message)
    if not isinstance(types, (list, tuple, set, frozenset)) or not all(one in known for one in types):
        raise WrongResult(
            f"message_types of the connector {name} must be a tuple of hookgw's classes of messages, not "
            f"{_show(types)}"
        )
    schema = getattr(connector, "options_schema", None)
    if schema is not None:
        what = f"options_schema of the connector {name}"
        if not isinstance(schema, dict) or not isinstance(schema.get("properties", {}), dict):
            raise WrongResult(f"{what} must be a JSON Schema of an object, not {_show(schema)}")
        schema = _json_copy(schema, what)
        if problem := check_schema(schema):
            raise WrongResult(f"{what} is not a valid JSON Schema: {problem}")
        if taken := sorted(reserved & schema.get("properties", {}).keys()):
            raise WrongResult(
                f"{what} has the option {taken[0]}, but this is a field of create itself: choose another name"
            )
    return CheckedConnector(name, found, frozenset(types), schema)


def _is_async(function: Any) -> bool:
    # A decorator with functools.wraps returns a plain function; the function below it is what counts.
    function = inspect.unwrap(function)
    # An object can be an async function, too.
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _json_copy(value: object, what: str) -> Any:
    try:
        return decode_strict(encode_strict(value))
    except ValueError as error:
        raise WrongResult(f"{what} {error}") from None


def _type_of(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _show(value: object) -> str:
    """Return a value for a message: a string as it is, any other value by its type."""
    if not isinstance(value, str):
        return _type_of(value)
    shown = repr(str.__str__(value))
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
