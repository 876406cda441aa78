"""The ``hookgw`` command group, with the table of commands.

This module imports only click, so that ``hookgw --version`` responds at once (a test checks that). Calling a
command imports its module. Plugins are loaded only for an unknown command name and for the list of commands.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from hookgw._version import __version__
from hookgw.command.completing import COMPLETE
from hookgw.command.failure import Failed
from hookgw.command.repeated import refuse_repeated
from hookgw.command.words import printable
from hookgw.kernel.errors import HookgwError
from hookgw.kernel.language import gettext as _

COMMANDS = {
    "serve": "hookgw.app.serve:serve",
    "demo": "hookgw.demo.command:demo",
    "init": "hookgw.app.init:init",
    "listen": "hookgw.listen.listen:listen",
    "connect": "hookgw.connect.connect:connect",
    "emit": "hookgw.events.commands.emit:emit",
    "message": "hookgw.messages.commands:message",
    "webhook": "hookgw.webhooks.commands:webhook",
    "instance": "hookgw.instances.commands.instance:instance",
    "connectors": "hookgw.instances.commands.connectors:connectors",
    "key": "hookgw.keys.commands:key",
    "portal": "hookgw.keys.portal_commands:portal",
    "delivery": "hookgw.deliveries.commands.delivery:delivery",
    "event": "hookgw.events.commands.event:event",
    "job": "hookgw.command.job:job",
    "audit": "hookgw.operations.commands.audit:audit",
    "figures": "hookgw.operations.commands.figures:figures",
    "tail": "hookgw.deliveries.commands.tail:tail",
    "lane": "hookgw.deliveries.commands.lane:lane",
    "node": "hookgw.operations.commands.node:node",
    "problem": "hookgw.operations.commands.problem:problem",
    "doctor": "hookgw.operations.commands.doctor:doctor",
    "mcp": "hookgw.mcp.command:mcp",
    "health": "hookgw.operations.commands.health:health",
    "plugins": "hookgw.app.plugins:plugins",
    "plugin": "hookgw.app.plugin:plugin",
    "check-config": "hookgw.app.check_config:check_config",
    "backup": "hookgw.operations.commands.backup:backup",
    "restore": "hookgw.operations.commands.backup:restore",
    "storage": "hookgw.operations.commands.storage:storage",
    "master-key": "hookgw.operations.commands.master_key:master_key",
    "apply": "hookgw.accounts.commands:apply",
    "export": "hookgw.accounts.commands:export",
    "import": "hookgw.instances.evolution.command:import_",
    "profile": "hookgw.command.profile:profile",
    "completion": "hookgw.command.completion:completion",
}
"""Built-in commands and where each is defined, in the order in which a newcomer needs them."""

NOT_ON_WINDOWS = frozenset({"fcntl", "grp", "pwd", "resource", "termios"})
"""Modules of Python that Linux and macOS have. Commands that only call the API do without them."""
PROFILE = "hookgw.profile"
"""Where the context of click has the profile that was named before the command."""
_OTHER_WORDS = {
    **dict.fromkeys(("describe", "find", "get", "info", "inspect", "show", "view"), ("find", "show", "list")),
    **dict.fromkeys(("add", "create", "new", "register"), ("create", "set")),
    **dict.fromkeys(("change", "edit", "patch"), ("update", "set")),
    **dict.fromkeys(("del", "delete", "remove", "rm"), ("delete", "revoke", "remove")),
    "ls": ("list",),
    "retry": ("resend",),
}
"""What commands of other programs are called, and what hookgw calls them."""


def add_plugin_commands(group: click.Group) -> None:
    """Let the configured plugins add their commands; see :mod:`hookgw.command.configuration`."""
    # This import costs 0.3 s (plugins, msgspec, structlog): pay it only when plugins are needed.
    from hookgw.command import configuration

    configuration.add_plugin_commands(group)


class CommandGroup(click.Group):
    """A group that says which commands it has, and that has ``help`` as a command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # click knows only the commands that are loaded.
        if self.get_command(ctx, args[0]) is None:
            option = f"--{args[0]}"
            if any(option in one.opts for one in self.get_params(ctx)):  # `help` and `version`
                return self.resolve_command(ctx, [*args[1:], option])
            if args[0][:1].isalnum():
                ctx.fail(" ".join(self._unknown(ctx, args[0])))
        return super().resolve_command(ctx, args)

    def list_shown(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - other groups need it
        """Return the commands that help shows."""
        return sorted(name for name, one in self.commands.items() if not one.hidden)

    def _unknown(self, ctx: click.Context, name: str) -> Iterator[str]:
        from hookgw.kernel.nearest import nearest  # only for a mistake

        known = self.list_shown(ctx)
        here = [one for one in _OTHER_WORDS.get(name, ()) if one in known]
        meant = here[0] if here else _elsewhere(ctx, name) or nearest(name, known)
        yield _("No such command {name}.", name=repr(name))
        if meant is not None:
            yield _("Did you mean {near}?", near=repr(meant))
        if ctx.parent is not None:  # `hookgw` itself has too many for a sentence
            yield _("There are: {names}.", names=", ".join(known))


def _elsewhere(ctx: click.Context, name: str) -> str | None:
    """Return the built-in command of another group that is meant; ``None`` for none, or several."""
    root = ctx.find_root()
    top = root.command if isinstance(root.command, click.Group) else click.Group()
    groups = {one: top.get_command(root, one) for one in COMMANDS}
    for word in (name, *_OTHER_WORDS.get(name, ())):
        found = [word] if word in COMMANDS else []
        for one, group in groups.items():
            if isinstance(group, click.Group) and word in group.commands:
                found.append(f"{one} {word}")
        if found:
            return f"{root.info_name} {found[0]}" if len(found) == 1 else None
    return None


class LazyGroup(CommandGroup):
    """A group that imports a built-in command when it is called.

    A :class:`~hookgw.kernel.errors.HookgwError` raised by a command ends the process with exit code 1 and its
    messages on standard error.

    Args:
        add_plugin_commands: adds the commands of plugins. It is called at most once.
    """

    group_class = CommandGroup  # of plugins' groups

    def __init__(
        self, *, add_plugin_commands: Callable[[click.Group], None] = add_plugin_commands, **options: Any
    ) -> None:
        super().__init__(**options)
        self._add_plugin_commands = add_plugin_commands
        self._has_plugin_commands = False

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the built-in commands in the order of :data:`COMMANDS`, then those of plugins."""
        # Pressing Tab runs no plugin: it takes a second, and what plugins print would tear the line.
        if not os.environ.get(COMPLETE):
            self._load_plugin_commands()
        return [*COMMANDS, *sorted(name for name in self.commands if name not in COMMANDS)]

    def list_shown(self, ctx: click.Context) -> list[str]:
        return self.list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        command: click.Command
        # Built-in commands first: a plugin can add commands but not replace `serve`.
        if cmd_name in COMMANDS:
            module, __, name = COMMANDS[cmd_name].partition(":")
            try:
                command = getattr(import_module(module), name)
            except ModuleNotFoundError as error:
                if error.name not in NOT_ON_WINDOWS:
                    raise
                return _command_of_other_systems(cmd_name)
        else:
            self._load_plugin_commands()
            found = self.commands.get(cmd_name)
            if found is None:
                return None
            command = found
        refuse_repeated(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # Names alone: with their help, pressing Tab would import every command, which takes a second.
        found = [CompletionItem(name) for name in self.list_shown(ctx) if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        _prepare_streams()
        given = [*args]  # click takes what it has read out of the list
        try:
            return super().make_context(info_name, args, parent, **extra)
        except OSError:
            _check_output()
            raise
        except click.NoSuchOption as error:
            command = next((word for word in given if word in COMMANDS), None)
            if command is None:
                raise
            told = _(
                "No such option {option}. Options of a command come after it: hookgw {command} … {option}.",
                option=error.option_name,
                command=command,
            )
            raise click.UsageError(told, error.ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OSError:
            _check_output()
            raise
        except HookgwError as error:
            raise Failed(*error.messages) from error
        except click.ClickException as error:
            # click repeats arguments, which scripts may have from anywhere. Its own texts may have lines.
            shown = "\n".join(map(printable, error.message.split("\n")))
            error.message = shown  # type: ignore[misc]  # each kind of error shows it in a way of its own
            raise

    def _load_plugin_commands(self) -> None:
        if self._has_plugin_commands:
            return
        # Also after a failure: click asks several times, and the message must appear once.
        self._has_plugin_commands = True
        try:
            self._add_plugin_commands(self)
        except HookgwError as error:
            # `hookgw --help` must work with a broken configuration: people look here for a way to fix it.
            from hookgw.command.output import say  # like all imports here, only when it is needed

            say(_("Plugin commands are unavailable: {error}", error=error), err=True)
        except ModuleNotFoundError as error:  # without a server, there are no plugins
            if error.name not in NOT_ON_WINDOWS:
                raise


def _prepare_streams() -> None:
    if sys.stdin is None:  # closed, as by `<&-`: commands read it and ask as if it were empty
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123
    out = sys.stdout
    # Any other stream belongs to the program around this one, such as a test runner.
    is_own = out is sys.__stdout__
    if is_own and isinstance(out, io.TextIOWrapper) and isinstance(raw := out.buffer, io.FileIO):
        # With PYTHONUNBUFFERED, Python drops what a full disk did not take of a text, without an error.
        encoding, errors = out.encoding, out.errors
        out.detach()
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=True)
        sys.__stdout__ = sys.stdout  # type: ignore[misc]  # of it, shutil asks how wide the terminal is
    # On Windows, a pipe has the encoding of the system, which lacks most of what people write in messages.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _check_output() -> None:
    # click itself writes the version, and the help of every command.
    from hookgw.command.output import flush_output

    flush_output()


def _command_of_other_systems(name: str) -> click.Command:
    """Return the command that stands in for one whose modules this system does not have."""

    def refuse() -> None:
        raise Failed(
            _(
                "`hookgw {name}` needs Linux or macOS. On Windows, run it in WSL or in a container; "
                "see docs/install.md, Systems.",
                name=name,
            ),
            _("Commands that call a running hookgw, such as `hookgw listen`, work here."),
        )

    return click.Command(
        name,
        callback=refuse,
        params=[click.Argument(["arguments"], nargs=-1, expose_value=False, type=click.UNPROCESSED)],
        help="Needs Linux or macOS; on Windows, WSL or a container.",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True},
    )


@click.group(
    cls=LazyGroup,
    name="hookgw",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="hookgw", message="%(prog)s %(version)s")
@click.option("--profile", metavar="NAME", help="The same as --profile of a command; see `hookgw profile`.")
@click.pass_context
def main(ctx: click.Context, profile: str | None) -> None:
    """A durable webhook gateway for messaging events.

    hookgw stores each event it accepts, then delivers it, signed and in order,
    to the URLs registered for its instance.

    Start with `hookgw demo`.
    """
    ctx.meta[PROFILE] = profile
