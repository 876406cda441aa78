"""``hookgw storage``: check, measure and compact the data file."""

from __future__ import annotations

from pathlib import Path

import click

from hookgw.cli.configuration import config_option, read_settings
from hookgw.cli.data_file import data_file
from hookgw.cli.failure import Failed
from hookgw.cli.output import Column, json_option, show_fields, show_json, show_table


@click.group()
def storage() -> None:
    """Check, measure and compact the data file.

    The commands read the configuration, and need no key.
    """


@storage.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@config_option
@json_option
def check(file: Path | None, config: Path | None, as_json: bool) -> None:
    """Check the data file, or the backup FILE.

    Works while hookgw runs. A large file takes minutes. The exit code is 1 if something is wrong.
    """
    import msgspec

    from hookgw.store.sqlite.maintenance import check_file

    report = check_file(file or _data_file(config))
    if as_json:
        show_json(msgspec.to_builtins(report))
    else:
        show_fields(
            {
                "file": report.file,
                "schema": report.schema,
                "size": _size(report.bytes),
                "events": f"{report.events:,}",
                "deliveries": f"{report.deliveries:,}",
                "pending": f"{report.pending:,}",
                "problems": len(report.problems) or "none",
            }
        )
    if report.problems:
        raise Failed(*report.problems)


@storage.command()
@config_option
@json_option
def stats(config: Path | None, as_json: bool) -> None:
    """Show what takes space in the data file.

    Works while hookgw runs. The sizes of the parts are estimates.
    """
    import msgspec

    from hookgw.store.sqlite.maintenance import measure_file

    parts = measure_file(_data_file(config))
    if as_json:
        show_json(msgspec.to_builtins(parts))
        return
    show_table(
        ("part", Column("rows", right=True), Column("size", right=True)),
        ([part.name, "" if part.rows is None else f"{part.rows:,}", _size(part.bytes)] for part in parts),
    )


@storage.command()
@config_option
def compact(config: Path | None) -> None:
    """Rewrite the data file without its free pages.

    hookgw must not run. The disk needs room for a second copy of the content.
    """
    from hookgw.store.sqlite.maintenance import compact_file

    data = _data_file(config)
    compacted = compact_file(data)
    click.echo(f"Compacted {data}: {_size(compacted.before)} before, {_size(compacted.after)} now.")


def _data_file(config: Path | None) -> Path:
    settings, _ = read_settings(config)
    return data_file(settings.storage)


def _size(count: int) -> str:
    return f"{count / 2**10:,.0f} KiB" if count < 2**20 else f"{count / 2**20:,.1f} MiB"
