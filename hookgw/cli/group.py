"""The ``hookgw`` group: which commands there are, and where each is found.

Nothing but click is imported here, so that ``hookgw --version`` answers at once. A command's module is
imported when the command is called. Plugins are loaded only for a name that is none of ours, and for
the list of all commands.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import click

from hookgw._version import __version__
from hookgw.cli.failure import Failed
from hookgw.models.errors import HookgwError

HOMES = {
    "serve": "hookgw.cli.serve:serve",
    "demo": "hookgw.cli.demo.command:demo",
    "listen": "hookgw.cli.listen:listen",
    "emit": "hookgw.cli.emit:emit",
    "webhook": "hookgw.cli.webhook:webhook",
    "instance": "hookgw.cli.instance:instance",
    "key": "hookgw.cli.key:key",
    "delivery": "hookgw.cli.delivery:delivery",
    "tail": "hookgw.cli.tail:tail",
    "lane": "hookgw.cli.lane:lane",
    "plugins": "hookgw.cli.plugins:plugins",
    "check-config": "hookgw.cli.check_config:check_config",
    "master-key": "hookgw.cli.master_key:master_key",
}


def add_plugin_commands(group: click.Group) -> None:
    """Let the configured plugins add their commands; see :mod:`hookgw.cli.configuration`."""
    from hookgw.cli import configuration

    configuration.add_plugin_commands(group)


class LazyGroup(click.Group):
    """A group whose own commands are imported when they are called.

    A :class:`~hookgw.models.errors.HookgwError` that leaves a command ends the process with exit code 1 and
    its messages on standard error.

    Args:
        add_plugin_commands: adds those of plugins; called at most once.
        options: of :class:`click.Group`.
    """

    def __init__(
        self, *, add_plugin_commands: Callable[[click.Group], None] = add_plugin_commands, **options: Any
    ) -> None:
        super().__init__(**options)
        self._add_plugin_commands = add_plugin_commands
        self._plugins_asked = False

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Our commands in the order in which a newcomer needs them, then those of plugins."""
        self._ask_plugins()
        return [*HOMES, *sorted(name for name in self.commands if name not in HOMES)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - likewise
        """The command of that name, or ``None``. A plugin cannot take the place of one of ours."""
        if cmd_name in HOMES:
            return _load(HOMES[cmd_name])
        self._ask_plugins()
        return self.commands.get(cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; see the class for what becomes of errors."""
        try:
            return super().invoke(ctx)
        except HookgwError as error:
            raise Failed(*error.messages) from error

    def _ask_plugins(self) -> None:
        """Let plugins add their commands. Where they cannot be loaded, say so and go on without."""
        if self._plugins_asked:
            return
        self._plugins_asked = True
        try:
            self._add_plugin_commands(self)
        except HookgwError as error:
            click.echo(f"The commands of plugins are left out: {error}", err=True)


def _load(home: str) -> click.Command:
    module, _, name = home.partition(":")
    command: click.Command = getattr(import_module(module), name)
    return command


@click.group(
    cls=LazyGroup,
    name="hookgw",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="hookgw", message="%(prog)s %(version)s")
def main() -> None:
    """A durable webhook gateway: what it accepts is delivered, signed and in order.

    Begin with `hookgw demo`.
    """
