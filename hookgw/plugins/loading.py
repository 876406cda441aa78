"""Loading the plugins that the settings ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pluggy
import structlog

from hookgw.config.file_permissions import everything_in, first_trouble
from hookgw.config.settings import PluginsSettings
from hookgw.models.errors import StartError
from hookgw.plugins import discovery as sources
from hookgw.plugins.discovery import Candidate
from hookgw.plugins.hook_check import check_plugin, new_manager

_log = structlog.get_logger("hookgw.plugins")
_DEFAULT_FOLDERS = PluginsSettings().folders


class PluginInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin that was found, for people.

    Attributes:
        name: what the settings call it.
        source: a file, a module name, or the distribution whose entry point it is.
        version: the distribution's, or the module's ``__version__``; ``None`` where neither is known.
        hooks: the hooks that it implements; empty where it was not loaded.
        enabled: whether it was loaded and is called.
        error: why an optional plugin was not loaded.
    """

    name: str
    source: str
    version: str | None = None
    hooks: tuple[str, ...] = ()
    enabled: bool = True
    error: str | None = None


class LoadedPlugins(msgspec.Struct, frozen=True, kw_only=True):
    """What :func:`load_plugins` found.

    Attributes:
        manager: has every loaded plugin, the one to be called last registered first.
        plugins: every plugin found, in the order of calling; also those that are not loaded.
        optional: the names of plugins that may fail at start.
    """

    manager: pluggy.PluginManager
    plugins: tuple[PluginInfo, ...]
    optional: frozenset[str] = frozenset()


def load_plugins(
    settings: PluginsSettings, *, base: Path, extra: Mapping[str, object] | None = None
) -> LoadedPlugins:
    """Find, import and check the plugins that the settings ask for.

    They are called in this order: those named in ``settings.order``, then hookgw's own, those of each
    folder by name, those of ``settings.names``, entry points by name, and ``extra``. A plugin that is
    reached in two ways is loaded once, under the name it was found by first.

    Args:
        settings: the block ``plugins`` of the configuration.
        base: the folder that relative ``settings.folders`` are below.
        extra: further plugin objects by name, for tests and programs that embed hookgw.

    Raises:
        StartError: a folder that is not there (the default one may be missing) or that others can
            write to, two plugins of one name, or a plugin that raises at import or has a wrong hook,
            unless it is optional. Each sentence names the plugin, the place and the reason.
    """
    found = list(sources.unrepeated(_find(settings, base, extra or {})))
    _refuse_shared_names(found, settings)
    _warn_of_unknown_names(found, settings)
    manager = new_manager()
    loaded: list[tuple[PluginInfo, object]] = []
    failures = []
    for candidate in _in_order(found, settings.order):
        info, plugin = _load(candidate, settings, manager)
        if info.error and info.name not in settings.optional:
            failures.append(
                f"{info.error} Mend it, or add {info.name} to plugins.disabled or plugins.optional."
            )
        if plugin is None or not any(plugin is other for _, other in loaded):
            loaded.append((info, plugin))
    if failures:
        raise StartError(*failures)
    for info, plugin in reversed(loaded):
        if plugin is not None:
            manager.register(plugin, name=info.name)
    manager.check_pending()
    return LoadedPlugins(
        manager=manager, plugins=tuple(info for info, _ in loaded), optional=frozenset(settings.optional)
    )


def _find(settings: PluginsSettings, base: Path, extra: Mapping[str, object]) -> Iterator[Candidate]:
    own = sources.first_party_folder()
    if own is not None and settings.first_party:
        yield from _in_folder(own, "plugins.first_party")
    for folder in settings.folders:
        path = base / folder
        if path.is_dir():
            switched_off = own is not None and not settings.first_party and path.resolve() == own
            if not switched_off:
                yield from _without_copies(_in_folder(path, "plugins.folders"), path, own)
        elif path.exists() or folder not in _DEFAULT_FOLDERS:
            raise StartError(
                f"plugins.folders: {path} is no folder; make it, or take {folder} out of the list."
            )
    yield from sources.by_names(settings.names)
    yield from sources.by_entry_points()
    for name, plugin in extra.items():
        yield Candidate(name=name, source="given by the program", load=partial(_itself, plugin))


def _without_copies(found: list[Candidate], folder: Path, own: Path | None) -> list[Candidate]:
    """A clone has hookgw's own plugins once more: those of the hookgw that runs count."""
    if own is None or not sources.is_of_a_clone(folder):
        return found
    names = {candidate.name for candidate in sources.in_folder(own)}
    return [candidate for candidate in found if candidate.name not in names]


def _itself(plugin: object) -> object:
    return plugin


def _in_folder(path: Path, setting: str) -> list[Candidate]:
    """The plugins of a folder, unless others than us can write to anything in it."""
    try:
        trouble = first_trouble(everything_in(path))
        if trouble is None:
            return sources.in_folder(path)
    except OSError as error:
        raise StartError(f"{setting}: {path} cannot be read: {error.strerror}.") from error
    raise StartError(f"{setting}: what is in {path} would run as hookgw, but {trouble}")


def _refuse_shared_names(found: Iterable[Candidate], settings: PluginsSettings) -> None:
    first: dict[str, Candidate] = {}
    for candidate in found:
        other = first.setdefault(candidate.name, candidate)
        if other is not candidate and candidate.name not in settings.disabled:
            raise StartError(
                f"Two plugins are called {other.name!r}, {other.source} and {candidate.source}. Rename one."
            )


def _warn_of_unknown_names(found: Iterable[Candidate], settings: PluginsSettings) -> None:
    known = {candidate.name for candidate in found}
    for key in ("disabled", "order"):
        for name in getattr(settings, key):
            if name not in known:
                _log.warning("no plugin has this name", setting=f"plugins.{key}", name=name)


def _in_order(found: list[Candidate], order: tuple[str, ...]) -> list[Candidate]:
    ranks = {name: rank for rank, name in reversed(list(enumerate(order)))}
    return sorted(found, key=lambda candidate: ranks.get(candidate.name, len(order)))


def _load(
    candidate: Candidate, settings: PluginsSettings, manager: pluggy.PluginManager
) -> tuple[PluginInfo, Any]:
    info = PluginInfo(name=candidate.name, source=candidate.source, version=candidate.version)
    if candidate.name in settings.disabled:
        return msgspec.structs.replace(info, enabled=False), None
    try:
        plugin = _import(candidate)
        hooks = check_plugin(plugin, manager)
    except ValueError as error:
        reason = f"Plugin {candidate.name!r} ({candidate.source}) cannot be loaded: {error}."
        _log.warning("plugin not loaded", plugin=candidate.name, reason=reason, exc_info=error.__cause__)
        return msgspec.structs.replace(info, enabled=False, error=reason), None
    if not hooks:
        _log.warning("plugin has no hooks", plugin=candidate.name, source=candidate.source)
    version = info.version or getattr(plugin, "__version__", None)
    return msgspec.structs.replace(info, hooks=hooks, version=version and str(version)), plugin


def _import(candidate: Candidate) -> Any:
    """The plugin's object. Whatever it raises, even by ``sys.exit()``, becomes a ValueError."""
    try:
        return candidate.load()
    except (Exception, SystemExit) as error:
        place = sources.place_of(error, candidate.path)
        raise ValueError(f"{place}{type(error).__name__}: {error}") from error
