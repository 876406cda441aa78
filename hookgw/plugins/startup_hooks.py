"""The hooks that hookgw calls at start or outside of Trio: options, kinds, connectors, routes, commands.

These hooks are plain functions. A failure stops the start and names the plugin. If the plugin is optional,
its failure is logged and counted instead, and the plugin is switched off.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from hookgw.models.errors import ConfigError, Invalid, PluginFailed, StartError
from hookgw.models.events import EventKind
from hookgw.models.payload_schemas import check_schema
from hookgw.models.registrations import Registration
from hookgw.plugins.boundary import Boundary, message_of
from hookgw.plugins.contained_connector import ContainedConnector
from hookgw.plugins.hook_implementation import HOOKS, HookImplementation, implementations_of, nearest
from hookgw.plugins.loading import LoadedPlugins, PluginInfo

if TYPE_CHECKING:
    import click
    from quart_trio import QuartTrio

    from hookgw.plugins.gateway_protocol import PluginGateway

# Plugins reject options with these. msgspec.ValidationError, the usual one, is a ValueError.
_REJECTIONS = (ValueError, Invalid)


class StartupHooks:
    """The plugins of a gateway, and the hooks that hookgw calls at start.

    Args:
        loaded: the plugins.
        on_failure: called with every failure, for counting.

    Attributes:
        boundary: calls the plugins.
    """

    def __init__(
        self, loaded: LoadedPlugins, *, on_failure: Callable[[PluginFailed], None] | None = None
    ) -> None:
        self._infos = {info.name: info for info in loaded.plugins}
        self._optional = loaded.optional
        self.boundary = Boundary(on_failure)
        self._implementations = {hook: implementations_of(loaded.manager, hook) for hook in HOOKS}

    def implements(self, hook: str) -> bool:
        """Return whether any plugin implements the hook.

        Raises:
            KeyError: there is no such hook.
        """
        return bool(self._implementations[hook])

    def plugins(self) -> list[PluginInfo]:
        """Return every plugin that was found, in calling order, including disabled and failed ones."""
        return list(self._infos.values())

    def configure(self, options: Mapping[str, Any]) -> None:
        """Give each plugin its block of ``plugins.options``, or ``{}``. Call this before any other hook.

        Raises:
            ConfigError: a block belongs to no known plugin or to one without options, is not a mapping, or
                is rejected by its plugin. Each message begins with the path of the block's key.
            StartError: a plugin failed otherwise.
        """
        implementations = self._implementations["hookgw_configure"]
        configurable = {implementation.plugin for implementation in implementations}
        # All problems are collected: a configuration can be fixed in one go.
        problems = []
        for name in options:
            if name not in self._infos:
                problems.append(f"{name}: no plugin has this name.{nearest(name, self._infos)}")
            # The options of a disabled plugin may stay, so that it can be switched on again.
            elif self._infos[name].enabled and name not in configurable:
                problems.append(f"{name}: this plugin takes no options. Remove the block.")
        for implementation in implementations:
            name, block = implementation.plugin, options.get(implementation.plugin)
            # An empty block in YAML is null.
            block = {} if block is None else block
            if not isinstance(block, dict):
                problems.append(f"{name}: must be a mapping of options, got {block!r}.")
                continue
            try:
                self.boundary.call(implementation, block, passes=_REJECTIONS)
            except _REJECTIONS as error:
                problems.append(f"{name}: {_sentence(error)}")
            except PluginFailed as failure:
                self._stop_or_switch_off(failure)
        if problems:
            raise ConfigError(*(f"plugins.options.{problem}" for problem in problems))

    def kinds(self) -> list[EventKind]:
        """Return the event kinds that plugins add, with ``plugin`` set to the plugin's name.

        Raises:
            StartError: a plugin failed, returned something else, or has an invalid schema.
        """
        kinds: list[EventKind] = []
        for implementation, items in self._lists(
            "hookgw_event_kinds", "EventKind", lambda item: isinstance(item, EventKind)
        ):
            for kind in items:
                if problem := check_schema(kind.schema):
                    reason = f"the schema of {kind.name} is not a valid JSON Schema: {problem}"
                    self._stop_or_switch_off(self.boundary.failed(implementation, reason))
                    break
            else:
                # Set here, so that a plugin cannot add kinds in the name of another.
                kinds += [msgspec.structs.replace(kind, plugin=implementation.plugin) for kind in items]
        return kinds

    def connectors(self) -> dict[str, ContainedConnector]:
        """Return the connectors that plugins provide, by name. Calls of them pass the boundary.

        Raises:
            StartError: a plugin failed or returned something else, or two connectors have one name.
        """
        owners: dict[str, str] = {}
        connectors: dict[str, ContainedConnector] = {}
        for implementation, items in self._lists("hookgw_connectors", "Connector", _is_connector):
            for connector in items:
                owner = owners.setdefault(connector.name, implementation.plugin)
                if connector.name in connectors:
                    raise StartError(
                        f"Two plugins provide a connector {connector.name!r}: {owner} and "
                        f"{implementation.plugin}. Add one of them to plugins.disabled."
                    )
                connectors[connector.name] = ContainedConnector(
                    connector, implementation.plugin, self.boundary
                )
        return connectors

    def check_registration(self, registration: Registration) -> None:
        """Let each plugin check its block in the registration's ``plugins``.

        Raises:
            Invalid: a block belongs to no known plugin or to one without options, is not an object, or is
                rejected by its plugin. Each message names the block.
            PluginFailed: a plugin failed otherwise.
        """
        checks = {found.plugin: found for found in self._implementations["hookgw_check_registration"]}
        problems = []
        for name, block in registration.plugins.items():
            if name not in checks:
                enabled = [info.name for info in self._infos.values() if info.enabled]
                problems.append(
                    f"{name}: this plugin takes no options for a registration."
                    if name in enabled
                    else f"{name}: no plugin has this name.{nearest(name, enabled)}"
                )
                continue
            if not isinstance(block, dict):
                problems.append(f"{name}: must be an object, got {block!r}.")
                continue
            try:
                self.boundary.call(checks[name], block, registration, passes=_REJECTIONS)
            except _REJECTIONS as error:
                problems.append(f"{name}: {_sentence(error)}")
        if problems:
            raise Invalid(*(f"webhook.plugins.{problem}" for problem in problems))

    def routes(self, app: QuartTrio, gateway: PluginGateway) -> None:
        """Let plugins add routes to the HTTP API, before it starts.

        Raises:
            StartError: a plugin failed.
        """
        for implementation in self._implementations["hookgw_routes"]:
            self._call_at_start(implementation, app, gateway)

    def commands(self, group: click.Group) -> None:
        """Let plugins add commands to ``hookgw``.

        Raises:
            StartError: a plugin failed.
        """
        for implementation in self._implementations["hookgw_commands"]:
            self._call_at_start(implementation, group)

    def background(self) -> list[tuple[str, Callable[[PluginGateway], Awaitable[None]]]]:
        """Return the background tasks of plugins: each plugin's name, and a function to run in a task.

        The function raises :class:`~hookgw.models.errors.PluginFailed`, which is reported by then.
        """
        return [
            (found.plugin, partial(self.boundary.run, found)) for found in self._implementations["hookgw_run"]
        ]

    def _lists(
        self, hook: str, item_type: str, is_valid: Callable[[Any], bool]
    ) -> Iterator[tuple[HookImplementation, list[Any]]]:
        for implementation in self._implementations[hook]:
            items = self._call_at_start(implementation)
            if items is None:
                continue
            if isinstance(items, list | tuple) and all(map(is_valid, items)):
                yield implementation, list(items)
            else:
                reason = f"it returned {items!r}; return a list of {item_type}"
                self._stop_or_switch_off(self.boundary.failed(implementation, reason))

    def _call_at_start(self, implementation: HookImplementation, *arguments: Any) -> Any:
        try:
            return self.boundary.call(implementation, *arguments)
        except PluginFailed as failure:
            self._stop_or_switch_off(failure)

    def _stop_or_switch_off(self, failure: PluginFailed) -> None:
        name = failure.plugin
        if name not in self._optional:
            raise StartError(
                f"{failure}. Fix the plugin, or add {name} to plugins.disabled or plugins.optional."
            ) from failure.__cause__
        self._infos[name] = msgspec.structs.replace(self._infos[name], enabled=False, error=str(failure))
        # All of its hooks: a plugin whose options or kinds are missing must not touch deliveries either.
        self._implementations = {
            hook: tuple(other for other in found if other.plugin != name)
            for hook, found in self._implementations.items()
        }


def _sentence(error: BaseException) -> str:
    text = message_of(error) or type(error).__name__
    return text if text.endswith(".") else f"{text}."


def _is_connector(item: Any) -> bool:
    # Duck-typed: a connector need not inherit from anything of hookgw's.
    name = getattr(item, "name", None)
    return (
        isinstance(name, str)
        and name != ""
        and all(callable(getattr(item, method, None)) for method in ("run", "send_text"))
    )
