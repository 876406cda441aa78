"""The command ``hookgw demo``."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console

from hookgw.app.server import open_server
from hookgw.command.failure import Failed
from hookgw.command.logging_setup import configure_logging
from hookgw.command.output import available_width, say
from hookgw.command.process import run_to_end, try_resources
from hookgw.config.settings import Settings
from hookgw.demo.board import verdict
from hookgw.demo.invitation import Invitation
from hookgw.demo.observer import Observer
from hookgw.demo.screens import open_screen
from hookgw.demo.stage import (
    EVENTS,
    FAST,
    INSTANCE,
    MESSAGES_PER_SECOND,
    Stage,
    demo_settings,
    open_receivers,
    try_loopback,
)
from hookgw.plugins.hooks import Hooks
from hookgw.plugins.loading import load_plugins


@click.command()
@click.option(
    "--once", is_flag=True, help=f"Stop after {EVENTS} events; exit code 0 if all arrived correctly."
)
def demo(once: bool) -> None:
    """See the gateway at work in one terminal.

    Runs a gateway, a simulated account and three receivers that verify each event. It needs no configuration.
    Two of the receivers fail and recover. The third is not affected, and no event is lost, repeated or out of
    order. The demo shows a link to its dashboard. Ctrl-C stops the demo and prints the result.
    """
    # A demo leaves nothing behind and never touches the data of a gateway in this folder.
    try:
        temporary = tempfile.TemporaryDirectory(prefix="hookgw-demo-")
    except OSError as error:
        raise Failed(
            f"The demo has no folder for its data: {error.strerror}. Set TMPDIR to a folder that hookgw can "
            "write to."
        ) from error
    try:
        try_loopback()
    except OSError as error:
        raise Failed(
            f"The demo needs 127.0.0.1, and this machine cannot use it: {error.strerror or error}. Bring the "
            "loopback interface up: ip link set lo up."
        ) from error
    with temporary as folder:
        settings = demo_settings(Path(folder))
        configure_logging(settings.log, sys.stderr)
        try_resources()
        is_flawless = run_to_end(run, settings, once)
    # Without --once a signal ends the demo, usually with events still pending: that is no failure.
    if once and not is_flawless:
        raise SystemExit(1)


async def run(settings: Settings, once: bool) -> bool:
    """Run the demo until it ends or a signal arrives, print the verdict, and return whether all is well."""
    # The receivers outlive the server: its drain still delivers to them.
    async with open_receivers() as receivers:
        observer = Observer(INSTANCE, {receiver.name: receiver.ledger for receiver in receivers})
        loaded = load_plugins(settings.plugins, base=Path(), extra={"demo_observer": observer})
        hooks = Hooks(loaded, hook_timeout=settings.plugins.hook_timeout, on_failure=None)
        async with open_server(settings, base=Path(), hooks=hooks) as server:
            # With --once it is over before anybody has opened a link.
            key = settings.auth.global_key
            invitation = None if once or key is None else Invitation(server, key, program_name())
            with open_screen(Console(highlight=False), invitation) as screen:
                stage = Stage(server.gateway, receivers, observer, screen)
                await stage.register(FAST if once else MESSAGES_PER_SECOND)
                await stage.play(once=once)
    # After the drain, so that the verdict includes the attempts that were in progress.
    width = available_width()
    lines = [click.wrap_text(line, width, subsequent_indent=" " * 6) for line in verdict(receivers)]
    say("", *lines)
    return all(receiver.ledger.flawless for receiver in receivers)


def program_name() -> str:
    """Return how to call this program in another terminal."""
    if shutil.which("hookgw"):
        return "hookgw"
    return sys.argv[0] if Path(sys.argv[0]).name == "hookgw" else f"{sys.executable} -m hookgw"
