"""``hookgw emit``: send events to the gateway."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from hookgw.command.client import UNSENDABLE, Client, call_options
from hookgw.command.failure import Failed
from hookgw.command.fields import read_json
from hookgw.command.names import complete_kinds, instance_argument
from hookgw.command.output import say, show_warnings, shown_as_json
from hookgw.kernel.language import gettext as _

NO_DATA = msgspec.Raw(b"{}")


@click.command()
@instance_argument()
@click.argument("event", required=False, shell_complete=complete_kinds)
@click.option(
    "--data",
    metavar="JSON|@FILE|-",
    callback=read_json,
    help="Payload: JSON, @ and a file name, or - for standard input.  [default: {}]",
)
@click.option("--id", "event_id", help="Event id; a repeated id is accepted once.")
@click.option(
    "--batch",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="Instead of EVENT: a file with one JSON event per line, or - for standard input.",
)
@call_options
def emit(
    client: Client,
    instance: str,
    event: str | None,
    data: msgspec.Raw | None,
    event_id: str | None,
    batch: Path | None,
) -> None:
    """Emit an event, or a batch of events.

    \b
        hookgw emit loja1 MESSAGES_UPSERT --data @message.json
        hookgw emit loja1 --batch events.ndjson

    Returns when the events are on disk. A batch is accepted as a whole or not at all. An event with a known
    id counts as a duplicate.
    """
    if (batch is None) == (event is None):
        raise click.UsageError(_("Give either EVENT or --batch FILE."))
    if batch is None:
        fields = {"event": event, "data": data or NO_DATA} | ({"id": event_id} if event_id else {})
        # msgspec inserts the raw payload. httpx would have to decode it, which changes numbers.
        try:
            content, content_type = msgspec.json.encode(fields), "application/json"
        except UnicodeEncodeError as error:
            raise Failed(_(UNSENDABLE)) from error
    else:
        if data is not None or event_id is not None:
            raise click.UsageError(_("--data and --id need EVENT. In a batch, each line has its own."))
        with click.open_file(str(batch), "rb") as file:
            content, content_type = file.read(), "application/x-ndjson"
    result = client.call("POST", "event", "emit", instance, content=content, content_type=content_type)
    if shown_as_json(result):
        return
    ids = result["ids"]
    suffix = f": {ids[0]}" if len(ids) == 1 else ""
    say(
        _(
            "Accepted {accepted}, duplicates {duplicates}{suffix}",
            accepted=result["accepted"],
            duplicates=result["duplicates"],
            suffix=suffix,
        )
    )
    show_warnings(result)
