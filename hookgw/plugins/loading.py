"""Loads the plugins that the settings ask for."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pluggy
import structlog

from hookgw.config.file_permissions import everything_in, first_trouble
from hookgw.config.file_presence import is_there
from hookgw.config.settings import PluginsSettings
from hookgw.kernel.errors import PluginFailed, StartError
from hookgw.plugins import discovery
from hookgw.plugins.boundary import Boundary, WrongResult
from hookgw.plugins.discovery import Candidate
from hookgw.plugins.hook_implementation import HookImplementation, check_plugin, new_manager

_log = structlog.get_logger("hookgw.plugins")
_DEFAULT_FOLDERS = PluginsSettings().folders


class PluginInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin, for people.

    Attributes:
        source: a file, a module name, or the distribution with its entry point.
        version: the distribution's, or the module's ``__version__``; ``None`` if neither is known.
        hooks: the hooks that it implements; empty if it was not loaded.
        error: why an optional plugin was not loaded.
    """

    name: str
    source: str
    version: str | None = None
    hooks: tuple[str, ...] = ()
    enabled: bool = True
    error: str | None = None


class LoadedPlugins(msgspec.Struct, frozen=True, kw_only=True):
    """The result of :func:`load_plugins`.

    Attributes:
        plugins: every plugin found, in calling order, including disabled and failed ones.
        optional: plugins that may fail at start.
    """

    manager: pluggy.PluginManager
    plugins: tuple[PluginInfo, ...]
    optional: frozenset[str] = frozenset()


def load_plugins(  # noqa: C901
    settings: PluginsSettings, *, base: Path, extra: Mapping[str, object] | None = None
) -> LoadedPlugins:
    """Find, import and check the plugins that the settings ask for.

    Calling order: plugins named in ``settings.order``, then hookgw's own, those of each folder by name, those
    of ``settings.names``, entry points by name, and ``extra``. A plugin that is found twice is loaded once,
    under its first name.

    Args:
        base: relative ``settings.folders`` are below this folder.
        extra: further plugin objects by name, for tests and programs that embed hookgw. A plugin that is
            found too, or another with the same name, is loaded once: this object, under this name.

    Raises:
        StartError: a folder is missing (the default one may be) or others can write to it, two plugins have
            one name, or a plugin that is not optional raises at import or has a wrong hook. Each message
            names the plugin, the place and the reason.
    """
    by_name: dict[str, Candidate] = {}
    found = [
        candidate
        for candidate in discovery.without_repeated_files(_find(settings, base))
        # The plugin that a test gives is often installed, too.
        if not any(
            candidate.name == name or candidate.would_load(plugin) for name, plugin in (extra or {}).items()
        )
    ]
    for name, plugin in (extra or {}).items():
        load = partial(_itself, plugin)
        found.append(Candidate(name=name, source="given by the program", load=load))
    for candidate in found:
        other = by_name.setdefault(candidate.name, candidate)
        # Names must be unique: options, logs and errors name a plugin. Disabling the name disables both.
        if other is not candidate and candidate.name not in settings.disabled:
            raise StartError(
                f"Two plugins are called {other.name!r}: {other.source} and {candidate.source}. Rename one."
            )
    # Not so for "optional": a plugin that may be missing may be listed there in advance.
    for key in ("disabled", "order"):
        for name in getattr(settings, key):
            if name not in by_name:
                _log.warning("no plugin has this name", setting=f"plugins.{key}", name=name)
    # Reversed, so that the first place counts if a name is there twice.
    ranks = {name: rank for rank, name in reversed(list(enumerate(settings.order)))}
    found.sort(key=lambda candidate: ranks.get(candidate.name, len(settings.order)))

    manager = new_manager()
    loaded: list[tuple[PluginInfo, object]] = []
    failures = []
    for candidate in found:
        info, plugin = _load(candidate, settings, manager)
        if info.error and info.name not in settings.optional:
            failures.append(
                f"{info.error} Fix the plugin, or add {info.name} to plugins.disabled or plugins.optional."
            )
        # The same module by its name and by an entry point: pluggy would refuse to register it twice.
        if plugin is None or not any(plugin is other for _, other in loaded):
            loaded.append((info, plugin))
    if failures:
        raise StartError(*failures)
    # pluggy calls plugins in the reverse order of their registration.
    for info, plugin in reversed(loaded):
        if plugin is not None:
            manager.register(plugin, name=info.name)
    return LoadedPlugins(
        manager=manager, plugins=tuple(info for info, _ in loaded), optional=frozenset(settings.optional)
    )


def _itself(plugin: object) -> object:
    return plugin


def _find(settings: PluginsSettings, base: Path) -> Iterator[Candidate]:
    first_party = discovery.first_party_folder()
    if settings.first_party:
        # As in an archive that Python imports from, or after somebody has copied the package alone.
        if first_party is None:
            raise StartError(
                f"plugins.first_party: hookgw's own plugins are missing in {discovery.package_folder()}. "
                "Install hookgw with pip or uv, into a folder, or set plugins.first_party: false."
            )
        yield from _find_in_trusted_folder(first_party, "plugins.first_party")
    for folder in settings.folders:
        path = base / folder
        try:
            # A link to nothing, or to where hookgw may not look, is a mistake and no missing folder.
            is_missing = not is_there(path) and not path.is_symlink()
        except OSError as error:
            raise StartError(f"plugins.folders: {path} cannot be read: {error.strerror}.") from error
        if is_missing and folder in _DEFAULT_FOLDERS:
            continue
        if path.is_dir():
            # Run in a checkout, the default folder "plugins" is the first-party folder itself.
            if first_party is not None and not settings.first_party and path.resolve() == first_party:
                continue
            found = _find_in_trusted_folder(path, "plugins.folders")
            # An installed hookgw that runs in a checkout finds each first-party plugin again: its own count.
            if first_party is not None and discovery.is_in_checkout(path):
                copies = {candidate.name for candidate in discovery.find_in_folder(first_party)}
                found = [candidate for candidate in found if candidate.name not in copies]
            yield from found
        else:
            raise StartError(
                f"plugins.folders: {path} is not a folder. Create it, or remove {folder} from the list."
            )
    for name in settings.names:
        load = partial(import_module, name)
        yield Candidate(name=name, source=f"module {name}", load=load, module=name)
    yield from discovery.find_entry_points()


def _find_in_trusted_folder(path: Path, setting: str) -> list[Candidate]:
    try:
        # Before anything is imported: a user who can write here can run code as hookgw.
        trouble = first_trouble(everything_in(path))
        if trouble is None:
            return discovery.find_in_folder(path)
    except OSError as error:
        raise StartError(f"{setting}: {path} cannot be read: {error.strerror}.") from error
    raise StartError(f"{setting}: the files in {path} would run as hookgw, but {trouble}")


def _load(
    candidate: Candidate, settings: PluginsSettings, manager: pluggy.PluginManager
) -> tuple[PluginInfo, Any]:
    info = PluginInfo(name=candidate.name, source=candidate.source, version=candidate.version)
    if candidate.name in settings.disabled:
        return msgspec.structs.replace(info, enabled=False), None
    load = HookImplementation(plugin=candidate.name, hook="its import", call=candidate.load)

    def check(plugin: Any) -> tuple[Any, tuple[str, ...], str | None]:
        # Here, because a look at the attributes of a plugin object may run its code.
        version = getattr(plugin, "__version__", None)
        try:
            return plugin, check_plugin(plugin, manager), version and str(version)
        except ValueError as error:
            raise WrongResult(str(error)) from error

    boundary = Boundary()
    try:
        with _same_working_directory():
            plugin, hooks, version = boundary.call(load, check=check, reports=False)
    except PluginFailed as failure:
        cause = failure.__cause__
        location = "" if cause is None else discovery.location_of(cause, candidate.path)
        # The error is one line, and a question mark at its end needs no full stop.
        why = " ".join(failure.reason.split())
        end = "" if why.endswith(("?", ".")) else "."
        reason = f"Plugin {candidate.name!r} ({candidate.source}) cannot be loaded: {location}{why}{end}"
        # With the traceback of what the plugin raised, unless the start ends with the reason alone.
        is_optional = candidate.name in settings.optional
        boundary.report(failure, level=logging.WARNING if is_optional else logging.DEBUG)
        return msgspec.structs.replace(info, enabled=False, error=reason), None
    if not hooks:
        _log.warning("plugin has no hooks", plugin=candidate.name, source=candidate.source)
    return msgspec.structs.replace(info, hooks=hooks, version=info.version or version), plugin


@contextmanager
def _same_working_directory() -> Iterator[None]:
    """Go back to the working directory: paths of the configuration are relative to it, and opened later."""
    try:
        here = Path.cwd()
    except OSError:  # it was removed
        yield
        return
    with chdir(here):
        yield
