"""What plugins are asked at the start, or outside of Trio: options, kinds, connectors, routes.

These hooks are plain functions. A failure stops the start, naming the plugin, unless the plugin is
optional; then it is logged and counted, and the plugin gives nothing here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from hookgw.models.connectors import Connector
from hookgw.models.errors import ConfigError, Invalid, PluginFailed, StartError
from hookgw.models.events import EventKind
from hookgw.models.payload_schemas import check_schema
from hookgw.models.registrations import Registration
from hookgw.plugins.hook_check import HOOKS, nearest
from hookgw.plugins.hook_implementation import PLUGIN_ERRORS, Implementation, implementations_of, reason_of
from hookgw.plugins.loading import LoadedPlugins, PluginInfo

if TYPE_CHECKING:
    import click
    from quart_trio import QuartTrio

    from hookgw.plugins.gateway_protocol import PluginGateway

_log = structlog.get_logger("hookgw.plugins")

_OPTION_ERRORS = (ValueError, Invalid)
"""How a plugin says that options are wrong. ``msgspec.ValidationError`` is a ValueError too."""


class StartupHooks:
    """The plugins of a gateway, and the hooks that are asked at the start.

    Args:
        loaded: the plugins.
        on_failure: called with every failure, for counting.
    """

    def __init__(
        self, loaded: LoadedPlugins, *, on_failure: Callable[[PluginFailed], None] | None = None
    ) -> None:
        self._infos = {info.name: info for info in loaded.plugins}
        self._optional = loaded.optional
        self._on_failure = on_failure
        self._of = {hook: implementations_of(loaded.manager, hook) for hook in HOOKS}

    def implements(self, hook: str) -> bool:
        """Whether any plugin implements the hook.

        Raises:
            KeyError: there is no such hook.
        """
        return bool(self._of[hook])

    def plugins(self) -> list[PluginInfo]:
        """Every plugin that was found, in the order of calling; also those that are not called."""
        return list(self._infos.values())

    def configure(self, options: Mapping[str, Any]) -> None:
        """Give each plugin its block of ``plugins.options``, or ``{}``; called before any other hook.

        Raises:
            ConfigError: a block for no known plugin or for one that takes none, a block that is no
                mapping, or one that the plugin refuses. Every wrong block is named with its key's path.
            StartError: a plugin failed otherwise.
        """
        takers = self._of["hookgw_configure"]
        wrong = [*self._untaken(options, {taker.plugin for taker in takers})]
        for implementation in takers:
            block = options.get(implementation.plugin)
            refused = self._configure(implementation, {} if block is None else block)
            if refused:
                wrong.append(f"plugins.options.{implementation.plugin}: {refused}")
        if wrong:
            raise ConfigError(*wrong)

    def kinds(self) -> list[EventKind]:
        """The event kinds that plugins add, each with its ``plugin`` filled in.

        Raises:
            StartError: a plugin failed or gave something else, or a schema is none.
        """
        found = self._listed("hookgw_event_kinds", _is_kind, "EventKind", _trouble_with_schema)
        return [msgspec.structs.replace(kind, plugin=plugin) for plugin, kind in found]

    def connectors(self) -> dict[str, Connector]:
        """The connectors that plugins provide, by name.

        Raises:
            StartError: a plugin failed, gave something else, or two connectors have one name.
        """
        owners: dict[str, str] = {}
        connectors: dict[str, Connector] = {}
        for plugin, connector in self._listed("hookgw_connectors", _is_connector, "Connector"):
            owner = owners.setdefault(connector.name, plugin)
            if connector.name in connectors:
                raise StartError(
                    f"The connector {connector.name!r} comes from two plugins: {owner} and {plugin}."
                )
            connectors[connector.name] = connector
        return connectors

    def check_registration(self, registration: Registration) -> None:
        """Let each plugin that the registration has a block for check it.

        Raises:
            Invalid: a block for no known plugin or for one that takes none, a block that is no
                object, or one that the plugin refuses. Every wrong block is named.
            PluginFailed: a plugin failed otherwise.
        """
        checkers = {found.plugin: found for found in self._of["hookgw_check_registration"]}
        wrong = []
        for name, block in registration.plugins.items():
            refused = self._check_block(checkers.get(name), name, block, registration)
            if refused:
                wrong.append(f"webhook.plugins.{name}: {refused}")
        if wrong:
            raise Invalid(*wrong)

    def routes(self, app: QuartTrio, gateway: PluginGateway) -> None:
        """Let the plugins add routes to the HTTP interface, before it starts.

        Raises:
            StartError: a plugin failed.
        """
        for implementation in self._of["hookgw_routes"]:
            self._ask_at_start(implementation, app, gateway)

    def commands(self, group: click.Group) -> None:
        """Let the plugins add commands to ``hookgw``.

        Raises:
            StartError: a plugin failed.
        """
        for implementation in self._of["hookgw_commands"]:
            self._ask_at_start(implementation, group)

    def background(self) -> list[tuple[str, Callable[[PluginGateway], Awaitable[None]]]]:
        """What runs beside the gateway: the plugin's name and a function to run in a task.

        The function raises what the plugin raises, and PluginFailed where that is ``SystemExit``.
        """
        return [(found.plugin, _runner(found)) for found in self._of["hookgw_run"]]

    def _untaken(self, options: Mapping[str, Any], taking: set[str]) -> Iterator[str]:
        for name in options:
            if name not in self._infos:
                yield f"plugins.options.{name}: no plugin has this name.{nearest(name, self._infos)}"
            elif self._infos[name].enabled and name not in taking:
                yield f"plugins.options.{name}: this plugin takes no options; take the block out."

    def _configure(self, implementation: Implementation, block: Any) -> str | None:
        if not isinstance(block, dict):
            return f"expected a mapping of options, got {block!r}."
        try:
            _call(implementation, block)
        except _OPTION_ERRORS as error:
            return _sentence(error)
        except PLUGIN_ERRORS as error:
            self._refuse(implementation, reason_of(error), error)
        return None

    def _check_block(
        self, checker: Implementation | None, name: str, block: Any, registration: Registration
    ) -> str | None:
        if checker is None:
            enabled = [info.name for info in self._infos.values() if info.enabled]
            if name in enabled:
                return "this plugin takes no options for a registration."
            return f"no plugin has this name.{nearest(name, enabled)}"
        if not isinstance(block, dict):
            return f"must be an object, got {block!r}."
        try:
            _call(checker, block, registration)
        except _OPTION_ERRORS as error:
            return _sentence(error)
        except PLUGIN_ERRORS as error:
            failure = checker.failure(reason_of(error), error)
            self._report(failure)
            raise failure from error
        return None

    def _listed(
        self,
        hook: str,
        fits: Callable[[Any], bool],
        wanted: str,
        trouble_with: Callable[[Any], str | None] = lambda _: None,
    ) -> Iterator[tuple[str, Any]]:
        """Each item that plugins give, with the plugin's name."""
        for implementation in self._of[hook]:
            items = self._ask_at_start(implementation)
            if items is None:
                continue
            if not isinstance(items, list | tuple) or not all(fits(item) for item in items):
                self._refuse(implementation, f"it returned {items!r}; return a list of {wanted}")
            elif trouble := next(filter(None, map(trouble_with, items)), None):
                self._refuse(implementation, trouble)
            else:
                yield from ((implementation.plugin, item) for item in items)

    def _ask_at_start(self, implementation: Implementation, *arguments: Any) -> Any:
        try:
            return _call(implementation, *arguments)
        except PLUGIN_ERRORS as error:
            self._refuse(implementation, reason_of(error), error)

    def _refuse(
        self, implementation: Implementation, reason: str, cause: BaseException | None = None
    ) -> None:
        """Stop the start, or switch the plugin off where it is optional."""
        failure = implementation.failure(reason, cause)
        self._report(failure)
        name = implementation.plugin
        if name not in self._optional:
            raise StartError(
                f"{failure}. Mend it, or add {name} to plugins.disabled or plugins.optional."
            ) from cause
        self._infos[name] = msgspec.structs.replace(self._infos[name], enabled=False, error=str(failure))
        self._of = {
            hook: tuple(other for other in found if other.plugin != name) for hook, found in self._of.items()
        }

    def _report(self, failure: PluginFailed) -> None:
        """Log a failure with its traceback, and count it."""
        _log.warning(
            "plugin failed",
            plugin=failure.plugin,
            hook=failure.hook,
            reason=failure.reason,
            exc_info=failure.__cause__,
        )
        if self._on_failure is not None:
            self._on_failure(failure)


def _trouble_with_schema(kind: EventKind) -> str | None:
    problem = check_schema(kind.schema)
    return problem and f"the schema of {kind.name} is no JSON Schema: {problem}"


def _call(implementation: Implementation, *arguments: Any) -> Any:
    answer = implementation.call(*arguments)
    if isinstance(answer, Awaitable):
        if isinstance(answer, Coroutine):
            answer.close()
        raise TypeError("it returned an awaitable, but it is called where nothing may wait")
    return answer


def _runner(implementation: Implementation) -> Callable[[PluginGateway], Awaitable[None]]:
    async def run(gateway: PluginGateway) -> None:
        try:
            answer = implementation.call(gateway)
            if isinstance(answer, Awaitable):
                await answer
        except SystemExit as error:
            raise implementation.failure(reason_of(error), error) from error

    return run


def _sentence(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text if text.endswith(".") else f"{text}."


def _is_kind(item: Any) -> bool:
    return isinstance(item, EventKind)


def _is_connector(item: Any) -> bool:
    name = getattr(item, "name", None)
    return (
        isinstance(name, str)
        and name != ""
        and all(callable(getattr(item, method, None)) for method in ("run", "send_text"))
    )
