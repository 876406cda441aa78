"""``hookgw emit``: raise an event."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from hookgw.cli.client import Client, server_options
from hookgw.cli.fields import read_json
from hookgw.cli.output import json_option, show_json

NO_DATA = msgspec.Raw(b"{}")


@click.command()
@click.argument("instance")
@click.argument("event", required=False)
@click.option(
    "--data",
    metavar="JSON|@FILE|-",
    callback=read_json,
    help="The payload: JSON, @ and a file's name, or - for standard input.  [default: {}]",
)
@click.option("--id", "event_id", help="The event's id; sent twice, it is accepted once.")
@click.option(
    "--batch",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="In the place of EVENT: a file of events, one JSON object a line; - for standard input.",
)
@server_options
@json_option
def emit(
    client: Client,
    instance: str,
    event: str | None,
    data: msgspec.Raw | None,
    event_id: str | None,
    batch: Path | None,
    as_json: bool,
) -> None:
    """Raise an event; done once it is on disk.

    \b
        hookgw emit loja1 MESSAGES_UPSERT --data @message.json
        hookgw emit loja1 --batch events.ndjson

    A batch is accepted whole or not at all. An event whose id is known counts as a duplicate.
    """
    if (batch is None) == (event is None):
        raise click.UsageError("Give either EVENT or --batch FILE.")
    if batch is not None:
        if data is not None or event_id is not None:
            raise click.UsageError("--data and --id belong to EVENT; in a batch each line has its own.")
        answer = _emit_batch(client, instance, batch)
    else:
        fields = {"event": event, "data": data or NO_DATA} | ({"id": event_id} if event_id else {})
        answer = client.call("POST", "event", "emit", instance, content=msgspec.json.encode(fields))
    _show(answer, as_json)


def _emit_batch(client: Client, instance: str, batch: Path) -> Any:
    with click.open_file(str(batch), "rb") as file:
        content = file.read()
    return client.call(
        "POST", "event", "emit", instance, content=content, content_type="application/x-ndjson"
    )


def _show(answer: Any, as_json: bool) -> None:
    if as_json:
        show_json(answer)
        return
    ids = answer["ids"]
    shown = f": {ids[0]}" if len(ids) == 1 else ""
    click.echo(f"Accepted {answer['accepted']}, duplicates {answer['duplicates']}{shown}")
    for warning in answer.get("warnings") or ():
        click.echo(f"Warning: {warning}", err=True)
