"""``hookgw serve``: run the gateway and its HTTP API until a signal arrives."""

from __future__ import annotations

import hookgw.command.lean_imports  # noqa: F401  # isort: skip -- before structlog

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import click
import msgspec
import structlog
import trio

from hookgw._version import __version__
from hookgw.app.server import open_server
from hookgw.command.configuration import (
    config_option,
    find_config,
    read_settings,
    warn_of_exposed_secrets,
    warn_of_unknown_variables,
)
from hookgw.command.failure import Failed
from hookgw.command.garbage import tune_garbage_collector
from hookgw.command.logging_setup import configure_logging, log_uncaught
from hookgw.command.output import say
from hookgw.command.process import (
    RECOMMENDED_OPEN_FILES,
    STOP_SIGNALS,
    exempt_started_objects,
    raise_file_limit,
    run_to_end,
    try_resources,
)
from hookgw.config.open_files import divide_open_files
from hookgw.config.rules import broken_rules
from hookgw.config.service_manager import SERVICE_READY, SERVICE_STOPPING, notify
from hookgw.config.settings import ServerSettings, Settings
from hookgw.core.background_output import BackgroundOutput, background_output
from hookgw.kernel.errors import ConfigError, StartError
from hookgw.store.engines import set_remains_aside

SHOW_WITHIN = 5.0
"""Seconds within which a generated key must be read."""

logger = structlog.get_logger("hookgw")


@click.command()
@config_option
@click.option("--host", help="Address to listen on, instead of the configured one.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port to listen on, instead of the configured one; 0: a free one.",
)
@click.option(
    "--new",
    is_flag=True,
    help="Begin with an empty gateway where tables in PostgreSQL are missing; the others are set aside.",
)
def serve(config: Path | None, host: str | None, port: int | None, new: bool) -> None:
    """Run the gateway until Ctrl-C or SIGTERM.

    Prints `hookgw VERSION listening on URL` when it is ready. On Ctrl-C or
    SIGTERM it refuses new requests, finishes the attempts in progress, and
    exits with code 0. A second signal stops it immediately; no accepted event
    is lost.

    With --host or --port it listens there and nowhere else. The one that is
    left out is that of the first host:port in server.bind. SIGHUP reads the
    configuration again.
    """

    # Found once: a reload must not take the defaults because the file is away for a moment.
    config = find_config(config)

    def read() -> tuple[Settings, Path]:
        settings, base = read_settings(config)
        return listen_on(settings, host, port), base

    def read_again() -> Settings:
        # A pipe, such as <(…) of a shell, was read at the start, and is empty now.
        if config is not None and config.is_fifo():
            raise ConfigError(f"{config}: this is a pipe, which cannot be read again: use a file.")
        # An editor may be writing it, or a full disk took nothing of it.
        if config is not None and config.is_file() and not config.stat().st_size:
            raise ConfigError(f"{config}: this file is empty.")
        return read()[0]

    with background_output():
        settings, base = read()
        prepare_process(settings, config)
        if new and (aside := set_remains_aside(settings.storage)) is not None:
            logger.warning("tables of a former gateway were set aside", schema=aside)
        run_to_end(run, settings, base, read_again)


def prepare_process(settings: Settings, config: Path | None) -> None:
    # A parent that waits for signals itself may have blocked them, and its children inherit that.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*STOP_SIGNALS, signal.SIGHUP))
    # First, because each of the next steps may log a warning.
    configure_logging(settings.log, sys.stderr)
    log_uncaught()
    warn_of_exposed_secrets(config)
    warn_of_unknown_variables()
    limit = raise_file_limit()
    try_resources()
    shares = divide_open_files(settings.server.max_connections, limit)
    # The address is the first line of a start, unless something is wrong.
    log = logger.info if limit < RECOMMENDED_OPEN_FILES else logger.debug
    log("open files", limit=limit, **shares._asdict())
    tune_garbage_collector()


def show_global_key(key: str) -> None:
    """Print a generated key; raise ``StartError`` if standard output is closed."""
    # Only the hash is stored. The key goes to standard output, because logs are kept and shipped.
    line = f"Global key (shown once, store it now): {key}"
    try:
        if isinstance(sys.stdout, BackgroundOutput):
            sys.stdout.show(f"{line}\n", within=SHOW_WITHIN)
        else:
            say(line)
    except (OSError, Failed):
        raise StartError(
            "The generated global key cannot be shown, because standard output is closed, full, or read "
            "by nobody. Set auth.global_key, or let somebody read standard output."
        ) from None


def listen_on(settings: Settings, host: str | None, port: int | None) -> Settings:
    """Return the settings with the address of the options, if any is given; port 0 is a free one.

    Raises:
        click.UsageError: the host is not one.
    """
    if host is None and port is None:
        return settings
    is_other = ("unix:", "fd://")
    configured = [address for address in settings.server.bind if not address.startswith(is_other)]
    own_host, _, own_port = (configured or ServerSettings().bind)[0].rpartition(":")
    host = own_host if host is None else host
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    bind = (f"{host}:{own_port if port is None else port}",)
    changed = msgspec.structs.replace(settings, server=msgspec.structs.replace(settings.server, bind=bind))
    for place, sentence in broken_rules(changed):
        raise click.UsageError(f"--host and --port: {place}: {sentence}")
    return changed


async def run(settings: Settings, base: Path, read_again: Callable[[], Settings] | None = None) -> None:
    """Serve until a signal arrives, then drain. If the gateway crashes, raise the exception of the crash."""

    shown_keys: list[str] = []

    def show_key(key: str) -> None:
        show_global_key(key)
        shown_keys.append(key)

    async with open_server(settings, base=base, show_key=show_key, read_again=read_again) as server:
        for url in server.urls:
            say(f"hookgw {__version__} listening on {url}")
        # Only with a key that was shown just now: a link in the log of every start would open the gateway to
        # all readers of the log.
        for key in shown_keys:
            if (link := server.login_link(key)) is not None:
                say(f"Dashboard (this link logs in once, within 5 minutes): {link}")
        notify(SERVICE_READY)
        try:
            await server.routed.wait()
            exempt_started_objects()
            await trio.sleep_forever()
        finally:
            notify(SERVICE_STOPPING)
