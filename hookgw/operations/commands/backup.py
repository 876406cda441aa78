"""``hookgw backup`` and ``hookgw restore``: copy the data file, and back."""

from __future__ import annotations

from pathlib import Path

import click

from hookgw.command.configuration import config_option, read_settings
from hookgw.command.failure import Failed
from hookgw.command.logging_setup import log_beside_output
from hookgw.command.output import say
from hookgw.command.progress import progress_bar
from hookgw.kernel.language import gettext as _
from hookgw.kernel.language import ngettext
from hookgw.operations.commands.data_file import data_file


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--check", is_flag=True, help="Check the copy afterwards: its pages, indexes and counts.")
@config_option
def backup(file: Path, check: bool, config: Path | None) -> None:
    """Copy the data file to FILE, also while hookgw runs.

    FILE gets its name once it is whole and on disk. An existing file is never
    overwritten. If the data file is encrypted, so is the copy, with the same
    master key.
    """
    # Imported here: `hookgw --help` imports every command for its summary.
    from hookgw.store.sqlite.backup import back_up_file
    from hookgw.store.sqlite.maintenance import check_file

    settings, __ = read_settings(config)
    data = data_file(settings.storage)
    try:
        with progress_bar(_("Copying")) as bar:
            size = back_up_file(data, file, bar.show, min_free=settings.storage.min_free)
    except KeyboardInterrupt:
        raise Failed(_("Stopped. Nothing of {file} remains.", file=file)) from None
    say(_("Copied {data} to {file} ({size} MiB).", data=data, file=file, size=round(size / 2**20, 1)))
    if check:
        with progress_bar(_("Checking")):
            report = check_file(file)
        if report.problems:
            raise Failed(_("The copy {file} is damaged:", file=file), *report.problems)
        pending = ngettext("{n} pending delivery", "{n} pending deliveries", report.pending)
        say(
            _(
                "It is whole: {things}, {pending}.",
                things=ngettext("{n} event", "{n} events", report.events),
                pending=pending,
            )
        )


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Move an existing data file aside.")
@config_option
def restore(file: Path, force: bool, config: Path | None) -> None:
    """Replace the data file by the backup FILE.

    hookgw must not run. FILE is checked first, and it stays where it is.
    """
    from hookgw.store.sqlite.maintenance import restore_file

    log_beside_output()
    settings, __ = read_settings(config)
    data = data_file(settings.storage)
    try:
        with progress_bar(_("Copying")) as bar:
            aside = restore_file(
                file,
                data,
                force=force,
                on_progress=bar.show,
                on_copied=lambda: bar.begin(_("Checking")),
            )
    except KeyboardInterrupt:
        raise Failed(_("Stopped. If a data file was there, it is still there.")) from None
    say(_("Restored {data} from {file}.", data=data, file=file))
    if aside is not None:
        say(_("The former data file is {aside}. Delete it once everything works.", aside=aside))
