"""Loads the settings from a file and the environment.

The environment overrides the file, and the file overrides the defaults. In the file, ``${NAME}`` and
``${NAME:-default}`` stand for environment variables. A variable ``HOOKGW_SECTION__KEY`` overrides that key.
See ``docs/configuration.md``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_origin

import msgspec

from hookgw.config.rules import broken_rules
from hookgw.config.secret_files import SUFFIX, may_be_in_file, with_files
from hookgw.config.settings import Settings
from hookgw.config.typed import KeyInfo, known_keys, read_settings
from hookgw.config.yaml_reader import Document, Problem, read_yaml
from hookgw.kernel.errors import ConfigError
from hookgw.kernel.nearest import nearest

GLOBAL_KEY_VARIABLE = "HOOKGW_GLOBAL_KEY"
MASTER_KEY_VARIABLE = "HOOKGW_MASTER_KEY"
_PREFIX = "HOOKGW_"
# Bytes. A wrong path, such as the data file's, must not fill the memory.
_MAX_FILE = 2**20
_REFERENCE = re.compile(
    r"\$\$\{|\$\{file:(?P<file>[^}]+)\}|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\}"
    r"|\$\{[^}]*\}?",
    re.ASCII,
)


def load_settings(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """Load the settings of a gateway.

    Args:
        path: the configuration file; ``None`` for none.
        environ: the environment, for references in the file and for overrides. ``HOOKGW_GLOBAL_KEY`` is
            ``auth.global_key`` unless that is set; an empty variable counts as missing. Likewise,
            ``HOOKGW_MASTER_KEY`` is ``storage.master_key`` unless that or ``master_key_file`` is set. The
            variable of a secret with ``_FILE`` behind it names a file that has the secret.

    Raises:
        ConfigError: the file cannot be read, or contains mistakes, or the environment does. It has one
            message for each: ``path (file, line N): what is wrong, what to write instead``.
    """
    mistakes = _Mistakes(str(path))
    environ = with_files(
        environ, _secret_variables(), lambda variable, sentence: mistakes.report("", sentence, variable)
    )
    raw = _read_file(path, environ, mistakes) if path is not None else None
    raw = {} if raw is None else raw
    if isinstance(raw, dict):
        _place_alerts(raw, mistakes)
        _apply_environment(raw, environ, mistakes)
    settings = read_settings(raw, mistakes.report)
    auth, storage = settings.auth, settings.storage
    # An empty key counts as none: Compose and Kubernetes set unset variables to "".
    global_key, master_key = auth.global_key or None, storage.master_key or None
    if not global_key and environ.get(GLOBAL_KEY_VARIABLE):
        global_key = environ[GLOBAL_KEY_VARIABLE]
        mistakes.overridden("auth.global_key", GLOBAL_KEY_VARIABLE)
    if not master_key and not storage.master_key_file and environ.get(MASTER_KEY_VARIABLE):
        master_key = environ[MASTER_KEY_VARIABLE]
        mistakes.overridden("storage.master_key", MASTER_KEY_VARIABLE)
    settings = msgspec.structs.replace(
        settings,
        auth=msgspec.structs.replace(auth, global_key=global_key),
        storage=msgspec.structs.replace(storage, master_key=master_key),
    )
    for place, sentence in broken_rules(settings):
        mistakes.report(place, sentence)
    if mistakes.messages:
        raise ConfigError(*mistakes.messages)
    return settings


def _place_alerts(raw: dict[str, Any], mistakes: _Mistakes) -> None:
    """Put ``alerts`` where the plugin of alerts finds it: people look for it at the top."""
    if "alerts" not in raw:
        return
    alerts = raw.pop("alerts")
    options = _mapping_at(raw, ["plugins", "options"])
    if options is None:
        return
    if "alerts" in options:
        mistakes.report("alerts", "plugins.options.alerts is the same: write one of them.")
    options["alerts"] = alerts


def _mapping_at(raw: dict[str, Any], sections: list[str]) -> dict[str, Any] | None:
    """Return a section, made if it is missing or empty; ``None`` if it is no mapping."""
    target = raw
    for section in sections:
        if target.get(section) is None:
            target[section] = {}
        target = target[section]
        if not isinstance(target, dict):
            return None  # the type check reports it
    return target


class _Mistakes:
    """Collects messages, each with the line or the variable of the value."""

    def __init__(self, file: str) -> None:
        self.messages: list[str] = []
        self._file = file
        self._lines: dict[str, int] = {}
        self._variables: dict[str, str] = {}
        self._unread: set[str] = set()

    def add_document(self, document: Document) -> None:
        self._lines = document.lines
        self._unread = {problem.path for problem in document.problems}
        for problem in document.problems:
            self._add(problem, f"{self._file}, line {problem.line}" if problem.line else self._file)

    def overridden(self, path: str, variable: str) -> None:
        self._variables[path] = variable

    def report(self, path: str, sentence: str, variable: str | None = None) -> None:
        if path in self._unread and path not in self._variables and variable is None:
            return  # nothing is known of the value, for example because its variable is not set
        # A missing key has no line: the nearest key above it shows where to look.
        place, at = variable, path
        while place is None:
            line = self._lines.get(at)
            place = self._variables.get(at) or (f"{self._file}, line {line}" if line else None)
            at = at[: max(at.rfind("."), at.rfind("["), 0)]
            if not at:
                break
        self._add(Problem(path, None, sentence), place)

    def _add(self, problem: Problem, place: str | None) -> None:
        where = f"{problem.path} ({place})" if problem.path and place else problem.path or place
        self.messages.append(f"{where}: {problem.sentence}")


def _read_file(path: Path, environ: Mapping[str, str], mistakes: _Mistakes) -> Any:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE + 1)
        # Editors on Windows write a byte order mark.
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(
            f"{path}: the configuration file cannot be read: {error.strerror or error}."
        ) from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: this is not UTF-8: save the file as UTF-8.") from error
    if len(content) > _MAX_FILE:
        raise ConfigError(f"{path}: the file is larger than 1 MiB: this is not a configuration.")
    # "${HOOKGW_GLOBAL_KEY}" in a file must not fail for users who let hookgw create the key.
    variables = {GLOBAL_KEY_VARIABLE: "", MASTER_KEY_VARIABLE: "", **environ}
    document = read_yaml(text, lambda scalar: expand(scalar, variables))
    mistakes.add_document(document)
    if document.value is None and document.problems:
        # Without a value every further message would only say that something is missing.
        raise ConfigError(*mistakes.messages)
    return document.value


def expand(text: str, environ: Mapping[str, str], read_file: Callable[[str], str] | None = None) -> str:
    """Replace ``${NAME}`` and ``${NAME:-default}`` with environment variables.

    The default also replaces an empty variable. ``$${`` is a literal ``${``. Inserted text is not expanded
    again: the value of a variable, for example a password, may contain ``${``.

    Args:
        read_file: returns the content of the file that ``${file:NAME}`` names, or raises ``ValueError``;
            without it, there is no such reference.

    Raises:
        ValueError: a variable is missing and has no default, or the reference is malformed.
    """

    def value(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        if match[0] == "$${":
            return "${"
        if match["file"] is not None and read_file is not None:
            return read_file(match["file"])
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


def variable_of(path: str) -> str:
    """Return the environment variable that overrides a key: ``HOOKGW_SERVER__BIND`` for ``server.bind``."""
    return _PREFIX + path.replace(".", "__").upper()


@cache
def _variables() -> dict[str, KeyInfo]:
    return {variable_of(key.path): key for key in known_keys()}


@cache
def _secret_variables() -> dict[str, Any]:
    """Return the types of secrets that may be in a file, by their variables."""
    keys = {variable: key.kind for variable, key in _variables().items() if may_be_in_file(key)}
    return {GLOBAL_KEY_VARIABLE: str, MASTER_KEY_VARIABLE: str, **keys}


# Those of commands. Kubernetes and Docker set the others for a service, or a container, of that name.
_OTHERS = frozenset(
    {
        "HOOKGW_CONFIG",
        "HOOKGW_URL",
        "HOOKGW_LANG",
        "HOOKGW_KEY",
        "HOOKGW_PROFILE",
        "HOOKGW_SECRET",
        "HOOKGW_PUBLIC_KEY",
        "HOOKGW_KEY_FILE",
        "HOOKGW_SOURCE",  # of compose.yaml, like the next one
        "HOOKGW_PUBLIC_URL",
    }
)
_OF_SERVICES = re.compile(
    r"HOOKGW_(\w+_)?(SERVICE_(HOST|PORT\w*)|PORT(_\d+_(TCP|UDP)(_\w+)?)?|NAME|ENV_\w+)", re.ASCII
)


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables that begin as hookgw's do but have no meaning, each with the nearest known one."""
    secrets = {variable + SUFFIX for variable in _secret_variables()}
    known = {*_variables(), GLOBAL_KEY_VARIABLE, MASTER_KEY_VARIABLE, *_OTHERS, *secrets}
    # Others are overrides, or mistakes that stop the start.
    candidates = sorted(name for name in environ if name.startswith(_PREFIX) and "__" not in name)
    return {
        name: near and _PREFIX + near
        for name in candidates
        if name not in known and not _OF_SERVICES.fullmatch(name)
        for near in [nearest(name.removeprefix(_PREFIX), [one.removeprefix(_PREFIX) for one in known])]
    }


@cache
def _misspellings() -> dict[str, str]:
    """Names that are meant as an override but lack an underscore, or name a section alone."""
    sections = {name.partition("__")[0]: name for name in reversed(_variables())}
    return {name.replace("__", "_"): name for name in _variables()} | sections


def _apply_environment(raw: dict[str, Any], environ: Mapping[str, str], mistakes: _Mistakes) -> None:
    for variable in sorted(name for name in environ if name.startswith(_PREFIX)):
        key = _variables().get(variable)
        path, kind = (key.path, key.kind) if key else (None, Any)
        # HOOKGW_PLUGINS__OPTIONS__SIMULATOR__RATE: a key inside a mapping, in lower case.
        for name, known in _variables().items() if key is None else ():
            if variable.startswith(name + "__") and get_origin(known.kind) is dict:
                path = f"{known.path}.{variable[len(name) + 2 :].lower().replace('__', '.')}"
        if path is None:
            # Other variables start with HOOKGW_ too: Kubernetes sets some for a service of that name. Only
            # what looks like an override is a mistake. Of the rest, `unknown_variables` warns.
            if "__" in variable or variable in _misspellings():
                near = _misspellings().get(variable)
                if near is None:
                    suffixes = [name.removeprefix(_PREFIX) for name in _variables()]
                    suffix = nearest(variable.removeprefix(_PREFIX), suffixes)
                    near = suffix and _PREFIX + suffix
                hint = f" Did you mean {near}?" if near else ""
                mistakes.report("", f"this variable overrides no key.{hint}", variable)
            continue
        mistakes.overridden(path, variable)
        value = _read_override(environ[variable], kind, path, mistakes)
        if value is msgspec.UNSET:
            continue
        *sections, last = path.split(".")
        target = _mapping_at(raw, sections)
        if target is not None:
            target[last] = value


def _read_override(text: str, kind: Any, path: str, mistakes: _Mistakes) -> Any:
    """Return the value of a variable for a key of a type; ``UNSET`` if a mistake was reported."""
    if kind in (str, str | None):
        # Taken as it is, so that no character of a key, a path or a password needs quotes.
        return None if kind is not str and text in ("", "null") else text
    document = read_yaml(text)
    for problem in document.problems:
        mistakes.report(path, problem.sentence)
    if document.problems:
        return msgspec.UNSET
    if get_origin(kind) is tuple and document.value is not None and not isinstance(document.value, list):
        return [document.value]
    return document.value
