"""``hookgw serve``: the gateway and its HTTP interface, until a signal."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import trio

from hookgw._version import __version__
from hookgw.cli.collector import tune_garbage_collector
from hookgw.cli.configuration import config_option, read_settings, warn_of_exposed_secrets
from hookgw.cli.logging_setup import configure_logging
from hookgw.cli.open_files import raise_file_limit
from hookgw.cli.running import run_to_end
from hookgw.cli.server import open_server
from hookgw.config.settings import Settings


@click.command()
@config_option
def serve(config: Path | None) -> None:
    """Run the gateway until Ctrl-C or SIGTERM.

    It prints `hookgw VERSION listening on URL` once it is ready. When it is told to end it takes no more
    requests, lets the attempts under way end, and exits with 0; told again, it ends at once.
    """
    settings, base = read_settings(config)
    configure_logging(settings.log, sys.stderr)
    warn_of_exposed_secrets(config)
    raise_file_limit()
    tune_garbage_collector()
    run_to_end(run, settings, base)


async def run(settings: Settings, base: Path) -> None:
    """Serve until a signal, then drain. A crash of the gateway leaves as its exception."""
    async with open_server(settings, base=base, show_key=_show_key) as server:
        for url in server.urls:
            click.echo(f"hookgw {__version__} listening on {url}")
        await trio.sleep_forever()


def _show_key(key: str) -> None:
    """It is kept hashed, and nobody can show it again."""
    click.echo(f"The global key, shown only now: {key}")
