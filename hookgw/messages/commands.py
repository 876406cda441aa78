"""``hookgw message``: send messages through an instance's connector."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import click

from hookgw.command.client import Client, call_options
from hookgw.command.group import CommandGroup
from hookgw.command.names import instance_argument
from hookgw.command.output import say, shown_as_json
from hookgw.connectors import guess_mimetype
from hookgw.kernel.language import gettext as _
from hookgw.messages.requests import KEY_PATTERN

KINDS = ("image", "video", "audio", "document", "sticker")


@click.group(cls=CommandGroup)
def message() -> None:
    """Send messages through an instance's connector."""


def _read_id(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(KEY_PATTERN, value):
        raise click.BadParameter(_("write 1 to 255 visible ASCII characters."))
    return value


@message.command()
@instance_argument()
@click.argument("number")
@click.argument("text", required=False)
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Send this file; TEXT is its caption.",
)
@click.option("--url", help="Send the file at this URL; TEXT is its caption.")
@click.option(
    "--as", "kind", type=click.Choice(KINDS), help="What a file is sent as.  [default: from its name]"
)
@click.option(
    "--id", "send_id", callback=_read_id, help="Idempotency key; a repeated id does not send twice."
)
@call_options
def send(
    client: Client,
    instance: str,
    number: str,
    text: str | None,
    path: Path | None,
    url: str | None,
    kind: str | None,
    send_id: str | None,
) -> None:
    """Send a text or a file to a phone number or a chat.

    \b
        hookgw message send loja1 5511988887777 "Your order is ready."
        hookgw message send loja1 5511988887777 "The menu" --file menu.pdf
    """
    if path is not None and url is not None:
        raise click.UsageError(_("Give either --file or --url."))
    call = "sendText"
    body: dict[str, str | None] = {"number": number, "text": text}
    if path is not None or url is not None:
        name = path.name if path is not None else (url or "").partition("?")[0]
        mimetype = guess_mimetype(name)
        guessed = (mimetype or "").partition("/")[0]
        call = "sendMedia"
        body = {
            "number": number,
            "mediatype": kind or (guessed if guessed in KINDS else "document"),
            "media": base64.b64encode(path.read_bytes()).decode() if path is not None else url,
            "mimetype": mimetype,
            "caption": text,
            "fileName": path.name if path is not None else None,
        }
    elif text is None or kind is not None:
        raise click.UsageError(_("Give TEXT, --file or --url; --as needs a file."))
    headers = {} if send_id is None else {"idempotency-key": send_id}
    sent = client.call("POST", "message", call, instance, body=body, headers=headers)
    if shown_as_json(sent):
        return
    key = sent.get("key") if isinstance(sent, dict) else None
    message_id = key.get("id") if isinstance(key, dict) else None
    say(_("Sent") if message_id is None else _("Sent: {message_id}", message_id=message_id))
