"""Loads the settings from a file and the environment.

What holds, from the weakest to the strongest: the defaults, the file, the environment. In the file
``${NAME}`` and ``${NAME:-default}`` stand for environment variables. A variable ``HOOKGW_SECTION__KEY``
overrides that key. See ``docs/configuration.md``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, get_origin

import msgspec

from hookgw.config.rules import broken_rules
from hookgw.config.settings import Settings
from hookgw.config.typed import KeyInfo, known_keys, nearest, read_settings
from hookgw.config.yaml_reader import Document, Problem, read_yaml
from hookgw.models.errors import ConfigError

GLOBAL_KEY_VARIABLE = "HOOKGW_GLOBAL_KEY"
MASTER_KEY_VARIABLE = "HOOKGW_MASTER_KEY"
_PREFIX = "HOOKGW_"
_LARGEST_FILE = 2**20
_REFERENCE = re.compile(
    r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\}|\$\{[^}]*\}?", re.ASCII
)


def load_settings(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """The settings of a gateway.

    Args:
        path: the configuration file; ``None`` for none.
        environ: the environment, for references in the file and for overrides. An empty or missing
            ``HOOKGW_GLOBAL_KEY`` is no key; set, it is ``auth.global_key`` unless that is given.
            ``HOOKGW_MASTER_KEY`` is ``storage.master_key`` likewise.

    Returns:
        The settings, typed and checked.

    Raises:
        ConfigError: the file cannot be read, or something in it or in the environment is wrong. It
            has a message for each thing, ``path (file, line N): what is wrong, what would be right``.
    """
    found = _Findings(str(path))
    raw = _read_file(path, environ, found) if path is not None else None
    raw = {} if raw is None else raw
    if isinstance(raw, dict):
        _apply_environment(raw, environ, found)
    settings = _with_keys(read_settings(raw, found.report), environ, found)
    for place, sentence in broken_rules(settings):
        found.report(place, sentence)
    if found.messages:
        raise ConfigError(*found.messages)
    return settings


class _Findings:
    """Collects what is wrong, each with the place that it comes from."""

    def __init__(self, file: str) -> None:
        self.messages: list[str] = []
        self._file = file
        self._lines: dict[str, int] = {}
        self._variables: dict[str, str] = {}

    def add_document(self, document: Document) -> None:
        self._lines = document.lines
        for problem in document.problems:
            self._add(problem, f"{self._file}, line {problem.line}" if problem.line else self._file)

    def overridden(self, path: str, variable: str) -> None:
        self._variables[path] = variable

    def report(self, path: str, sentence: str, variable: str | None = None) -> None:
        self._add(Problem(path, None, sentence), variable or self._place(path))

    def _add(self, problem: Problem, place: str | None) -> None:
        where = f"{problem.path} ({place})" if problem.path and place else problem.path or place
        self.messages.append(f"{where}: {problem.sentence}")

    def _place(self, path: str) -> str | None:
        """The variable or line that the key comes from, or else that the nearest key above it does."""
        line = self._lines.get(path)
        place = self._variables.get(path) or (f"{self._file}, line {line}" if line else None)
        parent = path[: max(path.rfind("."), path.rfind("["), 0)]
        return place if place or not parent else self._place(parent)


def _read_file(path: Path, environ: Mapping[str, str], found: _Findings) -> Any:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(
            f"{path}: the configuration file cannot be read: {error.strerror or error}."
        ) from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: this is not UTF-8: save the file as UTF-8.") from error
    if len(content) > _LARGEST_FILE:
        raise ConfigError(f"{path}: more than 1 MiB is no configuration file.")
    variables = {GLOBAL_KEY_VARIABLE: "", MASTER_KEY_VARIABLE: "", **environ}
    document = read_yaml(text, lambda scalar: expand(scalar, variables))
    if document.value is None and document.problems:
        found.add_document(document)
        raise ConfigError(*found.messages)
    found.add_document(document)
    return document.value


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Put environment variables in the place of ``${NAME}`` and ``${NAME:-default}``.

    The default also stands for a variable that is empty. ``$${`` is a literal ``${``. What is put in
    is not expanded again.

    Raises:
        ValueError: a variable is missing and has no default, or the reference is malformed.
    """

    def value(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        if match[0] == "$${":
            return "${"
        if name is None:
            raise ValueError(
                f"{match[0][:40]!r} names no variable: write ${{NAME}}, or $${{ for a literal ${{."
            )
        if default is not None:
            return environ.get(name) or default[2:]
        if name not in environ:
            raise ValueError(
                f"the environment variable {name} is not set: set it, or write ${{{name}:-default}}."
            )
        return environ[name]

    return _REFERENCE.sub(value, text)


def _with_keys(settings: Settings, environ: Mapping[str, str], found: _Findings) -> Settings:
    """An empty key is none; without one, that of the environment is taken."""

    def key(path: str, given: str | None, variable: str) -> str | None:
        if not given and environ.get(variable):
            found.overridden(path, variable)
            return environ[variable]
        return given or None

    auth, storage = settings.auth, settings.storage
    global_key = key("auth.global_key", auth.global_key, GLOBAL_KEY_VARIABLE)
    master_key = storage.master_key or None
    if not storage.master_key_file:
        master_key = key("storage.master_key", master_key, MASTER_KEY_VARIABLE)
    return msgspec.structs.replace(
        settings,
        auth=msgspec.structs.replace(auth, global_key=global_key),
        storage=msgspec.structs.replace(storage, master_key=master_key),
    )


def variable_of(path: str) -> str:
    """The environment variable that overrides a key: ``HOOKGW_SERVER__BIND`` for ``server.bind``."""
    return _PREFIX + path.replace(".", "__").upper()


def _apply_environment(raw: dict[str, Any], environ: Mapping[str, str], found: _Findings) -> None:
    """Write every override into the mapping.

    Names that are no key and have no ``__`` are left alone: other variables begin with ``HOOKGW_`` too,
    for example those that Kubernetes sets for a service of that name.
    """
    for variable in sorted(name for name in environ if name.startswith(_PREFIX)):
        path, kind = _target(variable)
        if path is not None:
            found.overridden(path, variable)
            value = _override(environ[variable], kind, partial(found.report, path))
            if value is not msgspec.UNSET:
                _put(raw, path.split("."), value)
        elif "__" in variable or variable in _mistakable():
            near = _mistakable().get(variable) or _nearest_variable(variable)
            found.report(
                "", f"this variable overrides no key.{f' Did you mean {near}?' if near else ''}", variable
            )


def _target(variable: str) -> tuple[str | None, Any]:
    """The path and type of the key that a variable overrides; ``None`` where it overrides none."""
    key = _variables().get(variable)
    if key is not None:
        return key.path, key.kind
    for name, key in _variables().items():
        if variable.startswith(name + "__") and get_origin(key.kind) is dict:
            return f"{key.path}.{variable[len(name) + 2 :].lower().replace('__', '.')}", Any
    return None, None


@cache
def _variables() -> dict[str, KeyInfo]:
    return {variable_of(key.path): key for key in known_keys()}


@cache
def _mistakable() -> dict[str, str]:
    """Names that somebody means as an override but spells otherwise: one underscore, a section alone."""
    sections = {name.partition("__")[0]: name for name in reversed(_variables())}
    return {name.replace("__", "_"): name for name in _variables()} | sections


def _nearest_variable(variable: str) -> str | None:
    near = nearest(variable.removeprefix(_PREFIX), [name.removeprefix(_PREFIX) for name in _variables()])
    return near and _PREFIX + near


def _override(text: str, kind: Any, complain: Callable[[str], None]) -> Any:
    """What a variable's text means for a key of that type; ``UNSET`` where that was complained of.

    Text is taken as it is, so that no character of a key or a path needs quotes. Everything else is
    read as YAML; where a list is wanted, a single value counts as a list of one.
    """
    if kind in (str, str | None):
        return None if kind is not str and text in ("", "null") else text
    document = read_yaml(text)
    for problem in document.problems:
        complain(problem.sentence)
    if document.problems:
        return msgspec.UNSET
    if get_origin(kind) is tuple and document.value is not None and not isinstance(document.value, list):
        return [document.value]
    return document.value


def _put(raw: dict[str, Any], keys: list[str], value: Any) -> None:
    """Set the value at a path and make what is missing on the way; what is no mapping stays as it is."""
    *sections, last = keys
    for section in sections:
        if raw.get(section) is None:
            raw[section] = {}
        raw = raw[section]
        if not isinstance(raw, dict):
            return
    raw[last] = value
