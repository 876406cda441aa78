"""``hookgw listen``: a receiver that verifies signatures and prints each request."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus

import click
import msgspec
import trio

from hookgw.cli.fields import read_keys
from hookgw.cli.output import printable
from hookgw.cli.process import cancel_on_signal, run_to_end
from hookgw.cli.received_event import read_received_event
from hookgw.models.clock import rfc3339
from hookgw.models.errors import StartError
from hookgw.models.signing_keys import VerifyingKey
from hookgw.testing.answers import Answer, answer
from hookgw.testing.received import Received
from hookgw.testing.receiver import open_receiver

FAILURE_STATUS = 503  # the lane waits and retries; a 500 counts as failed and may end as a dead letter
MAX_TEXT = 80
MAX_BODY = 2**24
"""Bytes. A longer body is not read and gets 413: anybody may connect if --host is a public address."""


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9000,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--secret",
    "keys",
    multiple=True,
    envvar="HOOKGW_SECRET",
    callback=read_keys,
    help="Verify with this secret (whsec_…); repeatable. Or set HOOKGW_SECRET.",
)
@click.option(
    "--public-key",
    "public_keys",
    multiple=True,
    envvar="HOOKGW_PUBLIC_KEY",
    callback=read_keys,
    help="Verify v1a signatures with this key (whpk_…); repeatable. Or set HOOKGW_PUBLIC_KEY.",
)
@click.option(
    "--status", type=click.IntRange(200, 599), default=200, show_default=True, help="Status to respond with."
)
@click.option(
    "--fail-rate",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help=f"Fraction of requests to answer with {FAILURE_STATUS} instead; 0.3 is 30 %.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def listen(
    host: str,
    port: int,
    keys: tuple[VerifyingKey, ...],
    public_keys: tuple[VerifyingKey, ...],
    status: int,
    fail_rate: float,
    as_json: bool,
) -> None:
    """Receive webhooks on this machine, verify and print them.

    With --secret or --public-key, a request without a valid signature gets 401. A body of more than 16 MiB
    is not read and gets 413. Ctrl-C stops the receiver.

    hookgw does not deliver to this machine unless you allow it. Start it with:

    \b
        HOOKGW_DELIVERY__ALLOW_NETWORKS='["127.0.0.0/8"]' hookgw serve
    """
    options = ListenOptions(keys=keys + public_keys, status=status, fail_rate=fail_rate, as_json=as_json)
    run_to_end(run, host, port, options)


@dataclass(frozen=True, kw_only=True)
class ListenOptions:
    """How to respond to requests, and how to print them.

    Attributes:
        keys: verify signatures with these keys; without keys, verify nothing.
        status: the status of responses.
        fail_rate: the fraction of requests that get 503 instead, from 0 to 1.
        as_json: print JSON.
        random_number: returns a number from 0 up to, but not including, 1.
    """

    keys: tuple[VerifyingKey, ...] = ()
    status: int = 200
    fail_rate: float = 0.0
    as_json: bool = False
    random_number: Callable[[], float] = random.random

    def respond(self, request: Received, now: float) -> Answer:
        """Print a line about a request and return the response.

        Args:
            request: any request.
            now: seconds since the epoch.
        """
        event = read_received_event(request, self.keys, now)
        # hookgw retries after a 401: with the right secret, the same delivery still arrives.
        if event.verified is False:
            status: int = HTTPStatus.UNAUTHORIZED
        else:
            status = FAILURE_STATUS if self.random_number() < self.fail_rate else self.status
        if self.as_json:
            fields = {
                "at": rfc3339(now),
                "answered": status,
                "method": request.method,
                "target": request.target,
                **msgspec.to_builtins(event),
                "body": request.body.decode(errors="replace"),
            }
            line = json.dumps(fields, ensure_ascii=False)
        else:
            clock = datetime.fromtimestamp(now).astimezone().strftime("%H:%M:%S.%f")[:-3]
            if event.verified is None:
                signature = "signature not checked"
            else:
                signature = "verified" if event.verified else f"NOT VERIFIED: {event.problem}"
            subject = f"{event.kind or request.method + ' ' + request.target}  {event.instance or '-'}"
            text = f'  "{event.text[:MAX_TEXT]}"' if event.text else ""
            # Anyone may send a request: escape sequences in it must not reach the terminal.
            line = printable(
                f"{clock}  {status}  {subject}  attempt {event.attempt or '-'}  {signature}{text}"
            )
        click.echo(line)
        return answer(status)


async def run(host: str, port: int, options: ListenOptions) -> None:
    """Listen until a signal arrives.

    Raises:
        StartError: the address cannot be listened on. It comes in an exception group.
    """

    def respond(request: Received) -> Answer:
        # The receiver of the test kit records every request; a command that runs for days must not.
        receiver.requests.clear()
        return options.respond(request, time.time())

    stop = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        await nursery.start(cancel_on_signal, stop)
        try:
            async with open_receiver(
                host=host,
                port=port,
                default=respond,
                max_body=MAX_BODY,
                on_fault=lambda fault: click.echo(printable(fault), err=True),
            ) as receiver:
                # To standard error: standard output is one line per request, also with --json.
                click.echo(f"Listening on {receiver.url} (press Ctrl-C to stop)", err=True)
                with stop:
                    await trio.sleep_forever()
        # open_receiver opens its own nursery, so even a port in use arrives in a group.
        except* OSError as group:
            reason = group.exceptions[0]
            raise StartError(
                f"Cannot listen on {host}:{port}: {reason}. Choose another port with --port."
            ) from group
        nursery.cancel_scope.cancel()
