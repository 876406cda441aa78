"""``hookgw storage``: check, measure and compact the data file, and copy it to a database or back."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hookgw.command.configuration import config_option, read_settings
from hookgw.command.failure import Failed
from hookgw.command.group import CommandGroup
from hookgw.command.logging_setup import log_beside_output
from hookgw.command.output import Column, json_option, say, show_fields, show_table, shown_as_json
from hookgw.command.progress import progress_bar
from hookgw.kernel.language import gettext as _
from hookgw.kernel.language import local_number
from hookgw.operations.commands.data_file import data_file

if TYPE_CHECKING:
    from hookgw.store.copying import Rows

_DATABASE = re.compile("(postgres|postgresql)://", re.IGNORECASE)
_LIKE_A_URL = re.compile("[^/]+:/")


def _read_place(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Read a path, or the URL of a database. Return a URL with its scheme in lower case."""
    if found := _DATABASE.match(value):
        return f"{found[0].lower()}{value[found.end() :]}"  # the driver knows no other
    if _LIKE_A_URL.match(value):
        # The value is not repeated: it may contain a password.
        raise click.BadParameter(
            _(
                "this looks like a URL, but not like one of PostgreSQL. Write "
                "postgresql://USER@HOST/DATABASE; for a file of this name, write ./ before it."
            )
        )
    return value


@click.group(cls=CommandGroup)
def storage() -> None:
    """Check, measure, compact and copy what is stored.

    The commands read the configuration, and need no key.
    """
    log_beside_output()


@storage.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@config_option
@json_option
def check(file: Path | None, config: Path | None) -> None:
    """Check the data file, or the backup FILE.

    Works while hookgw runs. A large file takes minutes. The exit code is 1 if something is wrong.
    """
    import msgspec

    from hookgw.store.sqlite.maintenance import check_file

    data = file or _data_file(config)
    with progress_bar(_("Checking")):
        report = check_file(data)
    if not shown_as_json(msgspec.to_builtins(report)):
        show_fields(
            {
                "file": report.file,
                "schema": report.schema,
                "size": _size(report.bytes),
                "events": local_number(report.events),
                "deliveries": local_number(report.deliveries),
                "pending": local_number(report.pending),
                "problems": len(report.problems) or "none",
            }
        )
    if report.problems:
        raise Failed(*report.problems)


@storage.command()
@config_option
@json_option
def stats(config: Path | None) -> None:
    """Show what takes space in the data file.

    Works while hookgw runs. The sizes of the parts are estimates.
    """
    import msgspec

    from hookgw.store.sqlite.maintenance import measure_file

    data = _data_file(config)
    with progress_bar(_("Measuring")):
        parts = measure_file(data)
    if shown_as_json(msgspec.to_builtins(parts)):
        return
    show_table(
        ("part", Column("rows", right=True), Column("size", right=True)),
        ([part.name, part.rows, _size(part.bytes)] for part in parts),
    )


@storage.command()
@config_option
def compact(config: Path | None) -> None:
    """Rewrite the data file without its free pages.

    hookgw must not run. The disk needs room for a second copy of the content.
    """
    from hookgw.store.sqlite.maintenance import compact_file

    data = _data_file(config)
    with progress_bar(_("Compacting")) as bar:
        compacted = compact_file(data, bar.show)
    say(
        _(
            "Compacted {data}: {size} before, {size2} now.",
            data=data,
            size=str(_size(compacted.before)),
            size2=str(_size(compacted.after)),
        )
    )


@storage.command()
@click.argument("source", metavar="FROM", type=click.Path(), callback=_read_place)
@click.argument("target", metavar="TO", type=click.Path(), callback=_read_place)
@click.option("--schema", default="hookgw", show_default=True, help="The schema of the tables.")
@json_option
def copy(source: str, target: str, schema: str) -> None:
    """Copy everything FROM a data file TO a database, or back.

    FROM and TO are paths or URLs (postgresql://user@host/database; the password
    may be in PGPASSWORD or ~/.pgpass). hookgw must run on neither. TO must be
    empty; if the copy is cut off, the same command goes on with it. At the end,
    all of both is read again and compared. FROM is not changed.
    """
    from hookgw.store.copying import copy_rows

    try:
        with (
            _open_source(source, schema) as rows,
            _open_target(target, schema, rows.place) as others,
            progress_bar(_("Copying")) as bar,
        ):
            copied = copy_rows(
                rows,
                others,
                lambda _what, done, total: bar.show(done, total),
                on_copied=lambda: bar.begin(_("Comparing")),
            )
            where = (rows.place, others.place)
    except KeyboardInterrupt:
        raise Failed(_("Stopped. The same command goes on with the copy.")) from None
    if shown_as_json([part._asdict() for part in copied]):
        return
    columns = ("part", Column("rows", right=True), "checksum (SHA-256)")
    show_table(columns, ([part.name, part.rows, part.checksum[:32]] for part in copied))
    say(_("Copied {source} to {target}; both have the same content.", source=where[0], target=where[1]))


def _open_source(name: str, schema: str) -> AbstractContextManager[Rows]:
    if not _is_url(name):
        from hookgw.store.sqlite.copy_rows import open_source

        return open_source(Path(name))
    from hookgw.store.engines import database_of

    server = database_of(name, schema)
    from hookgw.store.postgresql.copy_rows import open_source as open_database

    return open_database(server)


def _open_target(name: str, schema: str, source: str) -> AbstractContextManager[Rows]:
    if not _is_url(name):
        from hookgw.store.sqlite.copy_rows import open_target

        return open_target(Path(name))
    from hookgw.store.engines import database_of

    server = database_of(name, schema)
    from hookgw.store.postgresql.copy_rows import open_target as open_database

    return open_database(server, source)


def _is_url(name: str) -> bool:
    return _DATABASE.match(name) is not None


def _data_file(config: Path | None) -> Path:
    settings, __ = read_settings(config)
    return data_file(settings.storage)


def _size(count: int) -> str:
    if count < 2**20:
        return f"{local_number(round(count / 2**10))} KiB"
    return f"{local_number(round(count / 2**20, 1))} MiB"
