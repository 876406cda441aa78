"""``hookgw demo``: gateway, simulator and verifying receivers in one terminal."""

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
from hookgw.cli.running import run_to_end
from hookgw.cli.server import open_server
from hookgw.config.settings import Settings
from hookgw.plugins.hooks import Hooks
from hookgw.plugins.loading import load_plugins

INTRODUCTION = """\
hookgw listens on {url}. A simulated account, the instance "demo", gets
messages; three receivers hear of each. Two of them fail now and then: watch that
nothing is lost, repeated or overtaken. Join in from another terminal:

  export HOOKGW_URL={url} HOOKGW_KEY={key}
  # have the events posted to a URL of yours, too
  curl "$HOOKGW_URL/webhook/set/demo/mine" -H "apikey: $HOOKGW_KEY" \\
    -H 'content-type: application/json' -d '{{"url": "https://YOUR-URL"}}'
  # raise an event yourself
  curl "$HOOKGW_URL/event/emit/demo" -H "apikey: $HOOKGW_KEY" \\
    -H 'content-type: application/json' -d '{{"event": "MESSAGES_UPSERT",
      "data": {{"key": {{"remoteJid": "5511999999999@s.whatsapp.net", "id": "A1",
      "fromMe": false}},
      "message": {{"conversation": "Hello"}}, "messageTimestamp": 1795204133}}}}'
  # see what became of the last three
  curl "$HOOKGW_URL/delivery/list/demo?limit=3" -H "apikey: $HOOKGW_KEY"
"""


@click.command()
@click.option("--once", is_flag=True, help=f"End after {EVENTS} events; exit code 0 if all went well.")
def demo(once: bool) -> None:
    """Watch the whole job in one terminal.

    A gateway, a simulated account and three receivers that verify what they get, with nothing to configure.
    Two of the receivers go down and come back: see that the third never notices, and that nothing is
    lost, repeated or overtaken. Ctrl-C ends it.
    """
    with tempfile.TemporaryDirectory(prefix="hookgw-demo-") as folder:
        settings = demo_settings(Path(folder))
        configure_logging(settings.log, sys.stderr)
        all_went_well = run_to_end(run, settings, once)
    if once and not all_went_well:
        raise SystemExit(1)


async def run(settings: Settings, once: bool) -> bool:
    """Play the demo until its end or a signal, and print the verdict; whether all went well."""
    async with open_receivers() as receivers:
        observer = Observer(INSTANCE, {receiver.name: receiver.ledger for receiver in receivers})
        hooks = _hooks(settings, observer)
        async with open_server(settings, base=Path(), hooks=hooks) as server:
            click.echo(INTRODUCTION.format(url=server.urls[0], key=settings.auth.global_key))
            with open_screen(Console(highlight=False)) as screen:
                stage = Stage(server.gateway, receivers, observer, screen)
                await stage.register()
                await stage.play(once=once)
    click.echo("\n".join(["", *verdict(receivers)]))
    return all(receiver.ledger.flawless for receiver in receivers)


def _hooks(settings: Settings, observer: Observer) -> Hooks:
    loaded = load_plugins(settings.plugins, base=Path(), extra={"demo_observer": observer})
    return Hooks(loaded, hook_timeout=settings.plugins.hook_timeout, on_failure=None)
