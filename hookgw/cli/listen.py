"""``hookgw listen``: a receiver that verifies signatures and prints what arrives."""

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

from hookgw.cli.fields import read_secrets
from hookgw.cli.output import printable
from hookgw.cli.received_event import ReceivedEvent, read_received_event
from hookgw.cli.running import cancel_on_signal, run_to_end
from hookgw.models.clock import rfc3339
from hookgw.models.errors import StartError
from hookgw.models.signing_keys import VerifyingKey
from hookgw.testing.answers import Answer, answer
from hookgw.testing.received import Received
from hookgw.testing.receiver import open_receiver

FAILURE = 503
TEXT_LENGTH = 80
MAX_BODY = 2**24
"""The most bytes of a body that are read; a longer one is answered with 413."""


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=9000, show_default=True, help="0: any that is free."
)
@click.option(
    "--secret",
    "keys",
    multiple=True,
    envvar="HOOKGW_SECRET",
    callback=read_secrets,
    help="whsec_…, to verify with; repeatable. Also HOOKGW_SECRET.",
)
@click.option(
    "--public-key",
    "public_keys",
    multiple=True,
    envvar="HOOKGW_PUBLIC_KEY",
    callback=read_secrets,
    help="whpk_…, to verify v1a signatures with; repeatable. Also HOOKGW_PUBLIC_KEY.",
)
@click.option(
    "--status", type=click.IntRange(200, 599), default=200, show_default=True, help="What to answer."
)
@click.option(
    "--fail-rate",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help=f"How many of the requests get {FAILURE} instead: 0.3 is three in ten.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
def listen(
    host: str,
    port: int,
    keys: tuple[VerifyingKey, ...],
    public_keys: tuple[VerifyingKey, ...],
    status: int,
    fail_rate: float,
    as_json: bool,
) -> None:
    """Print what arrives, verified, until Ctrl-C.

    With --secret or --public-key, a request whose signature does not fit is answered with 401. A body of
    more than 16 MiB is not read and gets 413. hookgw refuses loopback addresses unless it is told
    otherwise: to have events posted here, start it as
    HOOKGW_DELIVERY__ALLOW_NETWORKS='["127.0.0.0/8"]' hookgw serve
    """
    listener = Listener(keys=keys + public_keys, status=status, fail_rate=fail_rate, as_json=as_json)
    run_to_end(run, host, port, listener)


@dataclass(frozen=True, kw_only=True)
class Listener:
    """What to do with each request. It keeps nothing.

    Attributes:
        keys: to verify with; none verifies nothing.
        status: what to answer.
        fail_rate: how many of the requests get 503 instead, 0 to 1.
        as_json: print JSON.
        chance: gives a number from 0 up to 1.
    """

    keys: tuple[VerifyingKey, ...] = ()
    status: int = 200
    fail_rate: float = 0.0
    as_json: bool = False
    chance: Callable[[], float] = random.random

    def answer(self, request: Received, now: float) -> Answer:
        """Print a line for the request and give the answer to it.

        Args:
            request: what came.
            now: seconds since the epoch.
        """
        arrival = read_received_event(request, self.keys, now)
        status = self._status(arrival)
        line = _json_line if self.as_json else _text_line
        click.echo(line(arrival, request, now, status))
        return answer(status)

    def _status(self, arrival: ReceivedEvent) -> int:
        if arrival.verified is False:
            return HTTPStatus.UNAUTHORIZED
        return FAILURE if self.chance() < self.fail_rate else self.status


async def run(host: str, port: int, listener: Listener) -> None:
    """Listen until a signal."""

    def choose(request: Received) -> Answer:
        receiver.requests.clear()
        return listener.answer(request, time.time())

    stop = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        await nursery.start(cancel_on_signal, stop)
        try:
            async with open_receiver(
                host=host, port=port, default=choose, max_body=MAX_BODY, on_fault=_tell
            ) as receiver:
                click.echo(f"Listening on {receiver.url} (Ctrl-C ends it)", err=True)
                with stop:
                    await trio.sleep_forever()
        except* OSError as group:
            reason = group.exceptions[0]
            raise StartError(f"Cannot listen on {host}:{port}: {reason}. Choose another --port.") from group
        nursery.cancel_scope.cancel()


def _tell(fault: str) -> None:
    click.echo(printable(fault), err=True)


def _text_line(arrival: ReceivedEvent, request: Received, now: float, status: int) -> str:
    clock = datetime.fromtimestamp(now).astimezone().strftime("%H:%M:%S.%f")[:-3]
    genuine = {True: "verified", False: f"NOT VERIFIED: {arrival.problem}", None: "not checked"}[
        arrival.verified
    ]
    what = f"{arrival.kind or request.method + ' ' + request.target}  {arrival.instance or '-'}"
    attempt = f"attempt {arrival.attempt or '-'}"
    text = f'  "{arrival.text[:TEXT_LENGTH]}"' if arrival.text else ""
    return printable(f"{clock}  {status}  {what}  {attempt}  {genuine}{text}")


def _json_line(arrival: ReceivedEvent, request: Received, now: float, status: int) -> str:
    fields = {
        "at": rfc3339(now),
        "answered": status,
        "method": request.method,
        "target": request.target,
        **msgspec.to_builtins(arrival),
        "body": request.body.decode(errors="replace"),
    }
    return json.dumps(fields, ensure_ascii=False)
