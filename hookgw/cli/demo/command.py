"""The command ``hookgw demo``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console

from hookgw.cli.demo.board import verdict
from hookgw.cli.demo.observer import Observer
from hookgw.cli.demo.screens import open_screen
from hookgw.cli.demo.stage import EVENTS, INSTANCE, Stage, demo_settings, open_receivers
from hookgw.cli.logging_setup import configure_logging
from hookgw.cli.process import run_to_end
from hookgw.cli.server import open_server
from hookgw.config.settings import Settings
from hookgw.plugins.hooks import Hooks
from hookgw.plugins.loading import load_plugins

INTRODUCTION = """\
hookgw listens on {url}. The instance "demo" is a simulated
account; hookgw sends each of its messages to three receivers. Two of them fail
from time to time, but no event is lost, repeated or out of order.
Press Ctrl-C to stop. To join in, run these commands in another terminal:

  export HOOKGW_URL={url} HOOKGW_KEY={key}
  # send the events to your own URL too
  curl "$HOOKGW_URL/webhook/set/demo/mine" -H "apikey: $HOOKGW_KEY" \\
    -H 'content-type: application/json' -d '{{"url": "https://YOUR-URL"}}'
  # emit an event
  curl "$HOOKGW_URL/event/emit/demo" -H "apikey: $HOOKGW_KEY" \\
    -H 'content-type: application/json' -d '{{"event": "MESSAGES_UPSERT",
      "data": {{"key": {{"remoteJid": "5511999999999@s.whatsapp.net", "id": "A1",
      "fromMe": false}},
      "message": {{"conversation": "Hello"}}, "messageTimestamp": 1795204133}}}}'
  # list the last three deliveries
  curl "$HOOKGW_URL/delivery/list/demo?limit=3" -H "apikey: $HOOKGW_KEY"
"""


@click.command()
@click.option(
    "--once", is_flag=True, help=f"Stop after {EVENTS} events; exit code 0 if all arrived correctly."
)
def demo(once: bool) -> None:
    """See the gateway at work in one terminal.

    Runs a gateway, a simulated account and three receivers that verify each event. It needs no configuration.
    Two of the receivers fail and recover. The third is not affected, and no event is lost, repeated or out of
    order. Ctrl-C stops the demo and prints the result.
    """
    # A demo leaves nothing behind and never touches the data of a gateway in this folder.
    with tempfile.TemporaryDirectory(prefix="hookgw-demo-") as folder:
        settings = demo_settings(Path(folder))
        configure_logging(settings.log, sys.stderr)
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
            click.echo(INTRODUCTION.format(url=server.urls[0], key=settings.auth.global_key))
            with open_screen(Console(highlight=False)) as screen:
                stage = Stage(server.gateway, receivers, observer, screen)
                await stage.register()
                await stage.play(once=once)
    # After the drain, so that the verdict includes the attempts that were in progress.
    click.echo("\n".join(["", *verdict(receivers)]))
    return all(receiver.ledger.flawless for receiver in receivers)
