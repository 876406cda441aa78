"""Calls the hooks of the start and outside of Trio: options, kinds, connectors, routes, and so on.

These hooks are plain functions. A failure stops the start and names the plugin. If the plugin is optional,
its failure is logged and counted instead, and the plugin is switched off.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from hookgw.kernel.errors import ConfigError, Invalid, PluginFailed, PluginMissing, StartError
from hookgw.kernel.json_fields import kind_of, show_name
from hookgw.kernel.masking import HoldsSecrets, mask_secrets
from hookgw.kernel.nearest import suggestion
from hookgw.kernel.schemes import HTTP_PORTS, no_plugin, scheme_of
from hookgw.kernel.secret_options import SecretOptions
from hookgw.kernel.sentences import Sentence, sentence_of
from hookgw.kernel.target_url import Origin
from hookgw.plugins import discovery
from hookgw.plugins.boundary import Boundary, sentence_from
from hookgw.plugins.contained_connector import ContainedConnector
from hookgw.plugins.contained_page import ContainedPage
from hookgw.plugins.discovery import location_of
from hookgw.plugins.hook_implementation import HOOKS, HookImplementation, implementations_of
from hookgw.plugins.loading import LoadedPlugins, PluginInfo
from hookgw.plugins.provided import (
    CheckedConnector,
    check_callable,
    check_connector,
    check_destinations,
    check_kind,
    check_list,
    check_option_name,
    check_page,
)
from hookgw.plugins.servers import SERVERS, parse_servers
from hookgw.records.event_kinds import BUILT_IN_KINDS
from hookgw.records.events import Catalog, EventKind
from hookgw.records.operational_kinds import OPERATIONAL_KINDS
from hookgw.records.registrations import GLOBAL_INSTANCE, Registration

if TYPE_CHECKING:
    import click
    from quart_trio import QuartTrio

    from hookgw.plugins.gateway_protocol import PluginGateway

T = TypeVar("T")

WITH_SERVERS = ("hookgw_connectors", "hookgw_run", "hookgw_run_on_one_node")
"""Hooks of plugins that the operator may list servers for."""

# Plugins reject options with these. msgspec.ValidationError, the usual one, is a ValueError.
_REJECTIONS = (ValueError, Invalid)


class _Provided(NamedTuple):
    """What plugins provide, each with the implementation that returned it; a scheme, with what sends."""

    kinds: list[tuple[HookImplementation, EventKind]]
    connectors: list[tuple[HookImplementation, ContainedConnector]]
    pages: list[tuple[HookImplementation, ContainedPage]]
    schemes: list[tuple[HookImplementation, str]]


class CheckedOptions(NamedTuple):
    """Options of plugins, checked while hookgw runs.

    Attributes:
        in_use: ``plugins.options`` as it is after :attr:`apply`.
        changed: the paths of the blocks that :attr:`apply` puts into use.
        needs_restart: the paths of the changed blocks that need a restart.
        apply: puts the options into use.
    """

    in_use: dict[str, Any]
    changed: list[str]
    needs_restart: list[str]
    apply: Callable[[], None]


Contain = Callable[[HookImplementation, Boundary], None]
"""Contains what a plugin has added since the last call, so that its calls pass the boundary.

It raises ``PluginFailed``, not reported yet, if the plugin must not add that.
"""


class StartupHooks:
    """The plugins of a gateway, and the hooks of the start.

    Attributes:
        secret_options: which options are secrets; known after :meth:`configure`.
        implements: returns the implementations of a hook; empty if no plugin has one.
        generation: grows when options of the configuration are put into use.
    """

    def __init__(
        self, loaded: LoadedPlugins, *, on_failure: Callable[[PluginFailed], None] | None = None
    ) -> None:
        self._infos = {info.name: info for info in loaded.plugins}
        self._optional = loaded.optional
        self.boundary = Boundary(on_failure, mask=self._mask)
        self._modules = {
            plugin.__name__: name
            for name, plugin in loaded.manager.list_name_plugin()
            if isinstance(plugin, ModuleType)
        }
        self._implementations = {hook: implementations_of(loaded.manager, hook) for hook in HOOKS}
        self.implements = self._implementations.__getitem__  # five times for each event
        self.generation = 0
        self._options: Mapping[str, Any] = {}  # of the configuration
        self._reserved = frozenset[str]()
        self._checked_options: Mapping[str, Any] = {}  # while they are checked
        # Plugins that are loaded, without those that are switched off.
        self._secret_names = {info.name: frozenset[str]() for info in loaded.plugins if info.enabled}
        self.secret_options = SecretOptions(self._secret_names)
        self._servers: dict[str, tuple[Origin, ...]] = {}
        # Switched off, because their options leave them nothing to do.
        self._without_work: set[str] = set()
        self._provided: _Provided | None = None

    def plugins(self) -> list[PluginInfo]:
        """Return all plugins in calling order, including disabled and failed ones."""
        return list(self._infos.values())

    def modules(self) -> dict[str, str]:
        """Return the names of plugins by the names of their modules, if they are modules."""
        return dict(self._modules)

    def configure(  # noqa: C901 -- reads once from top to bottom
        self, options: Mapping[str, Any], *, reserved: frozenset[str] = frozenset()
    ) -> None:
        """Give each plugin its block of ``plugins.options``, or ``{}``. Call this before any other hook.

        The ``servers`` of a plugin with connectors or a background task are hookgw's: the plugin does not get
        them. A plugin that returns ``False`` is switched off. No option of a connector may be ``reserved``.

        Raises:
            ConfigError: a block belongs to no known plugin or to one without options, is not a mapping, or
                is rejected by its plugin. Each message begins with the path of the block's key.
            StartError: a plugin failed otherwise.
        """
        # First: from here on, messages must not show them.
        for implementation, name in self._lists("hookgw_secret_options", "names", check_option_name):
            self._secret_names[implementation.plugin] |= {name}
        self._options, self._reserved = options, reserved
        # All problems are collected: a configuration can be fixed in one go.
        problems = []

        def refuse(name: str, sentence: str) -> None:
            if name in self._optional:
                self._stop_or_switch_off(PluginFailed(name, "hookgw_configure", sentence.removesuffix(".")))
            else:
                problems.append(f"{name}: {sentence}")

        options = self._without_servers(options, refuse)
        implementations = self._implementations["hookgw_configure"]
        configurable = {implementation.plugin for implementation in implementations}
        for name in options:
            if name not in self._infos:
                # An optional plugin may be missing, and its options may stay.
                if name not in self._optional:
                    problems.append(f"{name}: no plugin has this name.{suggestion(name, self._infos)}")
            # The options of a disabled plugin may stay, so that it can be switched on again.
            elif self._infos[name].enabled and name not in configurable:
                refuse(name, "this plugin takes no options. Remove the block.")
        for implementation in implementations:
            name, block = implementation.plugin, options.get(implementation.plugin)
            # An empty block in YAML is null.
            block = {} if block is None else block
            if not isinstance(block, dict):
                # Its type only: the value may be a secret.
                refuse(name, f"must be a mapping of options, not {kind_of(block)}.")
                continue
            try:
                # A copy, in all calls about options: what the plugin takes out of it stays masked.
                wants = self.boundary.call(implementation, deepcopy(block), passes=_REJECTIONS, reports=False)
            except _REJECTIONS as error:
                refuse(name, self._sentence(error))
            except PluginFailed as failure:
                self._stop_or_switch_off(failure)
            else:
                if wants is False:
                    self._without_work.add(name)
                    self._switch_off(name)
        if problems:
            raise ConfigError(*(f"plugins.options.{problem}" for problem in problems))

    def check_options_again(  # noqa: C901 -- reads once from top to bottom
        self, options: Mapping[str, Any]
    ) -> CheckedOptions:
        """Check another ``plugins.options`` while hookgw runs. This changes nothing.

        Raises:
            ConfigError: as for :meth:`configure`. An optional plugin stays on, so its rejection counts too.
        """
        implementations = {found.plugin: found for found in self._implementations["hookgw_reconfigure"]}
        takes_options = {found.plugin for found in self._implementations["hookgw_configure"]}
        has_servers = {found.plugin for hook in WITH_SERVERS for found in self._implementations[hook]}
        in_use, needs_restart, problems = dict(self._options), [], []
        uses: list[tuple[HookImplementation, Callable[[], None]]] = []
        # From here on, messages must not show the new secrets either.
        self._checked_options = options
        try:
            for name in sorted({*self._options, *options}):
                old, new = (block.get(name) or {} for block in (self._options, options))
                info = self._infos.get(name)
                # The same rules as at start: the options of a plugin that is off may be anything.
                if old == new or (info is None and name in self._optional):
                    continue
                if info and not info.enabled:
                    if name in self._without_work:
                        needs_restart.append(name)
                    continue
                if info is None:
                    if new:
                        problems.append(f"{name}: no plugin has this name.{suggestion(name, self._infos)}")
                    continue
                if not isinstance(new, dict):
                    problems.append(f"{name}: must be a mapping of options, not {kind_of(new)}.")
                    continue
                own_old, own_new = dict(old), dict(new)
                if name in has_servers:
                    servers = own_new.pop(SERVERS, None)
                    try:
                        parse_servers(servers)
                    except Invalid as error:
                        problems += (f"{name}: {sentence}" for sentence in error.messages)
                    if own_old.pop(SERVERS, None) != servers:
                        # The clients of running connectors keep them.
                        needs_restart.append(f"{name}.{SERVERS}")
                if own_old == own_new:
                    continue
                if name not in takes_options:
                    problems.append(f"{name}: this plugin takes no options. Remove the block.")
                elif name not in implementations:
                    needs_restart.append(name)
                else:
                    try:
                        use = self.boundary.call(
                            implementations[name], deepcopy(own_new), check=check_callable, passes=_REJECTIONS
                        )
                    except _REJECTIONS as error:
                        problems.append(f"{name}: {self._sentence(error)}")
                    except PluginFailed as failure:
                        problems.append(f"{name}: {failure}.")
                    else:
                        # The servers stay as they were.
                        kept = {SERVERS: old[SERVERS]} if name in has_servers and SERVERS in old else {}
                        in_use[name] = kept | own_new
                        uses.append((implementations[name], use))
        finally:
            self._checked_options = {}
        if problems:
            raise ConfigError(*(f"plugins.options.{problem}" for problem in problems))

        def apply() -> None:
            self._options = in_use
            for implementation, use in uses:
                # A failure is reported, and changes nothing else: the others have checked theirs.
                with suppress(PluginFailed):
                    self.boundary.call(msgspec.structs.replace(implementation, call=use))
            self.generation += 1

        return CheckedOptions(
            in_use=in_use,
            changed=[f"plugins.options.{found.plugin}" for found, _ in uses],
            needs_restart=[f"plugins.options.{name}" for name in needs_restart],
            apply=apply,
        )

    def _without_servers(
        self, options: Mapping[str, Any], refuse: Callable[[str, str], None]
    ) -> Mapping[str, Any]:
        """Keep the servers of connectors and background tasks, and return the options without them."""
        rest = dict(options)
        for name in {found.plugin for hook in WITH_SERVERS for found in self._implementations[hook]}:
            block = options.get(name)
            if not isinstance(block, dict) or SERVERS not in block:
                continue
            rest[name] = {option: value for option, value in block.items() if option != SERVERS}
            if not rest[name]:
                del rest[name]  # a plugin that takes no options has none to refuse
            try:
                self._servers[name] = parse_servers(block[SERVERS])
            except Invalid as error:
                for sentence in error.messages:
                    refuse(name, sentence)
        return rest

    def servers(self, plugin: str) -> tuple[Origin, ...]:
        """Return the servers that the operator lists for a plugin's connectors and background task."""
        return self._servers.get(plugin, ())

    def kinds(self) -> list[EventKind]:
        """Return the event kinds that plugins add, with ``plugin`` set to the plugin's name.

        Raises:
            StartError: a plugin failed, or provides a kind, a connector or a page that breaks a rule (see
                :mod:`hookgw.plugins.provided`) or that exists already.
        """
        return [kind for _, kind in self._enabled(self._provide().kinds)]

    def connectors(self) -> dict[str, ContainedConnector]:
        """Return the connectors that plugins provide, by name. Their calls pass the boundary. The errors are
        those of :meth:`kinds`.
        """
        return {connector.name: connector for _, connector in self._enabled(self._provide().connectors)}

    def dashboard_pages(self) -> list[ContainedPage]:
        """Return the pages of the dashboard that plugins provide. Their calls pass the boundary. The errors
        are those of :meth:`kinds`.
        """
        return [page for _, page in self._enabled(self._provide().pages)]

    def _provide(self) -> _Provided:
        # All together: a plugin that is switched off because of its connector must add no kinds either.
        if self._provided is None:
            provided = _Provided(
                # The plugin's name is set here, so that a plugin cannot add kinds in the name of another.
                kinds=[
                    (found, msgspec.structs.replace(kind, plugin=found.plugin))
                    for found, kind in self._lists("hookgw_event_kinds", "EventKind", check_kind)
                ],
                connectors=[
                    (found, self._contained(connector, found.plugin))
                    for found, connector in self._lists(
                        "hookgw_connectors", "Connector", partial(check_connector, reserved=self._reserved)
                    )
                ],
                schemes=[
                    (
                        HookImplementation(plugin=found.plugin, hook=f"{found.hook}.{scheme}", call=send),
                        scheme,
                    )
                    for found in self._implementations["hookgw_destinations"]
                    for scheme, send in (self._call_at_start(found, check=check_destinations) or {}).items()
                ],
                pages=[
                    (found, ContainedPage(page, found.plugin, self.boundary))
                    for found, page in self._lists("hookgw_dashboard_pages", "DashboardPage", check_page)
                ],
            )
            # Again after each plugin that is switched off: another plugin may be in no conflict any more.
            while (conflict := self._find_conflict(provided)) is not None:
                self._stop_or_switch_off(conflict)
            self._provided = provided
        return self._provided

    def _contained(self, connector: CheckedConnector, plugin: str) -> ContainedConnector:
        def configured() -> Mapping[str, Any]:
            block = self._options.get(plugin)
            return block if isinstance(block, dict) else {}

        return ContainedConnector(
            connector,
            plugin,
            self.boundary,
            listed=lambda: self.servers(plugin),
            configured=configured,
        )

    def _find_conflict(self, provided: _Provided) -> PluginFailed | None:
        catalog = Catalog([*BUILT_IN_KINDS, *OPERATIONAL_KINDS])
        for found, kind in self._enabled(provided.kinds):
            try:
                catalog.add(kind)
            except ValueError as error:
                return found.failure(str(error))
        owners: dict[str, str] = {}
        for found, connector in self._enabled(provided.connectors):
            if connector.name in owners:
                owner = owners[connector.name]
                return found.failure(f"the connector {connector.name} is already provided by {owner}")
            owners[connector.name] = found.plugin
        paths: set[tuple[str, str]] = set()
        for found, page in self._enabled(provided.pages):
            if (page.plugin, page.path) in paths:
                return found.failure(f"two of its pages have the path {page.path}")
            paths.add((page.plugin, page.path))
        senders: dict[str, str] = {}
        for send, scheme in self._enabled(provided.schemes):
            if scheme in senders:
                return send.failure(f"the plugin {senders[scheme]} sends to {scheme}:// URLs already")
            senders[scheme] = send.plugin
        return None

    def check_registration(
        self, registration: Registration, stored: Registration | None = None, *, at: str = "webhook."
    ) -> None:
        """Let each plugin check its block in the registration's ``plugins``.

        Args:
            stored: what it replaces. If the blocks stay as they are, a disabled registration is not checked:
                it can be disabled although its plugin is gone or fails.
            at: what stands before the names of fields in messages: where the request has the registration.

        Raises:
            Invalid: a block belongs to no known plugin or to one without options, is not an object, or is
                rejected by its plugin. Each message names the block.
            PluginFailed: a plugin failed otherwise.
        """
        if stored is not None and not registration.enabled and registration.plugins == stored.plugins:
            return
        problems = [
            sentence.at(f"{at}plugins.{name}: ")
            for name, sentence in self._check_options(registration, reports=True)
        ]
        if (unserved := self._unserved(registration)) is not None:
            problems.append(unserved.at(f"{at}url: "))
        if problems:
            raise Invalid(*problems)

    def _unserved(self, registration: Registration) -> Sentence | None:
        """Return why an enabled registration must not have its URL; ``None`` if something sends to it."""
        if self.missing_plugin(registration) is None:
            return None
        others = "".join(f", {known}://" for known in sorted(self.schemes))
        scheme = scheme_of(registration.url)
        return Sentence(
            "url.no_plugin",
            "No plugin sends to {scheme}:// URLs. The URL must begin with http:// or https://{others}.",
            scheme=scheme,
            others=others,
        )

    def missing_plugin(self, registration: Registration) -> str | None:
        """Return the error of attempts for an enabled registration, if no plugin sends to its URL."""
        scheme = scheme_of(registration.url)
        if registration.is_pulled and registration.instance == GLOBAL_INSTANCE:
            return "pull: is for the webhooks of an instance: its receiver fetches by the instance's name."
        if not registration.enabled or registration.is_pulled or scheme in {*HTTP_PORTS, *self.schemes}:
            return None
        return no_plugin(scheme)

    def absent_plugin(self, registration: Registration) -> PluginMissing | None:
        """Return the error of attempts, if a plugin that the registration has options for does not run."""
        for name in registration.plugins:
            if (info := self._infos.get(name)) is None or not info.enabled:
                return PluginMissing(show_name(name))
        return None

    @property
    def schemes(self) -> Collection[str]:
        """The schemes of URLs that plugins send to."""
        return self.destinations().keys()

    def destinations(self) -> dict[str, HookImplementation]:
        """Return the functions of plugins that send, by the schemes of URLs."""
        return {scheme: send for send, scheme in self._enabled(self._provide().schemes)}

    def check_configured(self, registration: Registration) -> None:
        """Let each plugin check its block in a registration of the configuration.

        An optional plugin that fails or rejects its block is switched off. There may be blocks for plugins
        that are disabled or switched off, as in ``plugins.options``.

        Raises:
            Invalid: as for :meth:`check_registration`.
            StartError: a plugin failed.
        """
        problems = []
        try:
            for name, sentence in self._check_options(self._without_unused(registration), reports=False):
                if name in self._optional:
                    failure = PluginFailed(name, "hookgw_check_registration", sentence.removesuffix("."))
                    self._stop_or_switch_off(failure)
                else:
                    problems.append(sentence.at(f"plugins.{name}: "))
        except PluginFailed as failure:
            self._stop_or_switch_off(failure)
        # An optional plugin that is not there may be the one that sends.
        is_missing = bool(self._optional - {info.name for info in self._infos.values() if info.enabled})
        if (unserved := self._unserved(registration)) is not None and not is_missing:
            problems.append(unserved.at("url: "))
        if problems:
            raise Invalid(*problems)

    def check_reloaded(self, registration: Registration) -> None:
        """Let each plugin check its block in a registration of a configuration that is being reloaded.

        No plugin is switched off.

        Raises:
            Invalid: as for :meth:`check_registration`, or a plugin failed.
        """
        try:
            self.check_registration(self._without_unused(registration), at="")
        except PluginFailed as failure:
            raise Invalid.of(
                "plugin.failed_to_check",
                "plugins.{plugin}: {failure}.",
                plugin=failure.plugin,
                failure=failure,
            ) from failure

    def _without_unused(self, registration: Registration) -> Registration:
        """Return a registration without the blocks of plugins that are disabled, or optional and missing."""
        unused = {info.name for info in self._infos.values() if not info.enabled} | (
            self._optional - self._infos.keys()
        )
        blocks = {name: block for name, block in registration.plugins.items() if name not in unused}
        return msgspec.structs.replace(registration, plugins=blocks)

    def _check_options(self, registration: Registration, *, reports: bool) -> list[tuple[str, Sentence]]:
        """Return the plugins that reject their block, each with a sentence; raise ``PluginFailed``."""
        checks = {found.plugin: found for found in self._implementations["hookgw_check_registration"]}
        enabled = [info.name for info in self._infos.values() if info.enabled]
        problems: list[tuple[str, Sentence]] = []
        for name, block in registration.plugins.items():
            if name not in self._infos:
                hint = suggestion(name, enabled) or " Remove the block, or add the plugin."
                sentence = Sentence("plugin.unknown", "no plugin has this name.{hint}", hint=hint)
            elif name not in enabled:
                sentence = Sentence("plugin.switched_off", "this plugin is switched off. Remove the block.")
            elif name not in checks:
                sentence = Sentence(
                    "plugin.no_registration_options", "this plugin takes no options for a registration."
                )
            elif not isinstance(block, dict):
                # Its type only: the value may be a secret.
                sentence = Sentence(
                    "plugin.options_not_object", "must be an object, not {kind}.", kind=kind_of(block)
                )
            else:
                try:
                    shown = registration.detached()
                    self.boundary.call(
                        checks[name], shown.plugins[name], shown, passes=_REJECTIONS, reports=reports
                    )
                except _REJECTIONS as error:
                    sentence = self._sentence(error, registration)
                else:
                    continue
            problems.append((show_name(name), sentence))
        return problems

    def secrets_of(self, registration: Registration) -> set[str]:
        """Return the values of secret options, in the registration and in the configuration."""
        return self.secret_options.values(registration.plugins) | self.secret_options.values(self._options)

    def routes(self, app: QuartTrio, gateway_for: Callable[[str], PluginGateway], contain: Contain) -> None:
        """Let plugins add routes to the HTTP API, before it starts.

        Each plugin gets a gateway of its own, by its name.

        Raises:
            StartError: a plugin failed, or must not add a route.
        """
        for implementation in self._implementations["hookgw_routes"]:
            self._call_at_start(implementation, app, gateway_for(implementation.plugin))
            try:
                contain(implementation, self.boundary)
            except PluginFailed as failure:
                self._stop_or_switch_off(failure)

    def may_refuse_routes(self) -> bool:
        """Return whether :meth:`routes` could stop the start. hookgw's own plugin with routes does not."""
        own = discovery.first_party_folder()
        known = None if own is None else str(own / "alerts")
        return any(self._infos[one.plugin].source != known for one in self._implementations["hookgw_routes"])

    def commands(self, group: click.Group, contain: Contain) -> None:
        """Let plugins add commands to ``hookgw``; see :meth:`routes`."""
        for implementation in self._implementations["hookgw_commands"]:
            self._call_at_start(implementation, group)
            contain(implementation, self.boundary)

    def background(self, hook: str) -> list[tuple[str, Callable[[PluginGateway], Awaitable[None]]]]:
        """Return the background tasks of plugins: each plugin's name, and a function to run in a task.

        The function raises :class:`~hookgw.kernel.errors.PluginFailed` after reporting it.

        Args:
            hook: ``hookgw_run``, or ``hookgw_run_on_one_node``.
        """
        return [(found.plugin, partial(self.boundary.run, found)) for found in self._implementations[hook]]

    def _lists(
        self, hook: str, item_type: str, check: Callable[[Any], T]
    ) -> list[tuple[HookImplementation, T]]:
        """Return the items of every plugin's list, with the implementation that returned them."""
        found: list[tuple[HookImplementation, T]] = []
        for implementation in self._implementations[hook]:
            items = self._call_at_start(
                implementation, check=partial(check_list, item_type=item_type, check=check)
            )
            found += ((implementation, item) for item in items or ())
        return found

    def _enabled(self, found: Iterable[tuple[HookImplementation, T]]) -> list[tuple[HookImplementation, T]]:
        return [(other, item) for other, item in found if self._infos[other.plugin].enabled]

    def _call_at_start(
        self, implementation: HookImplementation, *arguments: Any, check: Callable[[Any], Any] | None = None
    ) -> Any:
        try:
            return self.boundary.call(implementation, *arguments, check=check, reports=False)
        except PluginFailed as failure:
            self._stop_or_switch_off(failure)

    def _mask(self, text: str, arguments: tuple[object, ...]) -> str:
        """Mask the secret options in a plugin's text, given the arguments of the call."""
        secrets = self.secret_options.values(self._options)
        secrets |= self.secret_options.values(self._checked_options)
        for argument in arguments:
            if isinstance(argument, Registration):
                secrets |= self.secret_options.values(argument.plugins)
            elif isinstance(argument, HoldsSecrets):
                secrets |= argument.secret_texts()
                if isinstance(registration := getattr(argument, "registration", None), Registration):
                    secrets |= self.secret_options.values(registration.plugins)
        return mask_secrets(text, secrets)

    def _sentence(self, error: BaseException, *arguments: object) -> Sentence:
        # Masked before it is cut: otherwise a part of a secret could remain.
        sentence = sentence_from(error, lambda text: self._mask(text, arguments))
        text = sentence or type(error).__name__
        return sentence if text.endswith(".") else sentence_of(f"{text}.")

    def _stop_or_switch_off(self, failure: PluginFailed) -> None:
        name = failure.plugin
        if name not in self._optional:
            cause = failure.__cause__
            file = Path(self._infos[name].source).resolve()  # a path that does not exist, if it is none
            place = "" if cause is None else location_of(cause, file).removesuffix(": ")
            # One line, whatever the plugin's message looks like. The log has the traceback for its author.
            sentence = " ".join(f"{failure} ({place}).".replace(" ().", ".").split())
            self.boundary.report(failure, level=logging.DEBUG)
            raise StartError(
                f"{sentence} Fix the plugin, or add {name} to plugins.disabled or plugins.optional."
            ) from cause
        self.boundary.report(failure)
        self._switch_off(name, str(failure))

    def _switch_off(self, name: str, error: str | None = None) -> None:
        self._infos[name] = msgspec.structs.replace(self._infos[name], enabled=False, error=error)
        self._secret_names.pop(name, None)
        # All of its hooks: a plugin without its options or kinds must not touch deliveries either.
        for hook, found in self._implementations.items():
            self._implementations[hook] = tuple(other for other in found if other.plugin != name)
