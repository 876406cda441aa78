"""``hookgw listen``: a receiver that verifies signatures and prints each request."""

from __future__ import annotations

import errno
import random
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus

import click
import msgspec
import trio
from click.core import ParameterSource

from hookgw.command.failure import Failed, ReaderGone
from hookgw.command.fields import read_keys
from hookgw.command.output import say, show_json_line
from hookgw.command.process import cancel_on_signal, run_to_end
from hookgw.kernel.errors import StartError
from hookgw.kernel.masking import with_masked_user
from hookgw.kernel.signing_keys import VerifyingKey
from hookgw.kernel.times import rfc3339
from hookgw.listen.forward import Forwarded, Forwarder, open_forwarder, read_target
from hookgw.listen.received_event import ReceivedEvent, read_received_event
from hookgw.testing.answers import Answer, Stream, answer
from hookgw.testing.received import Received
from hookgw.testing.receiver import open_receiver

FAILURE_STATUS = 503  # the lane waits and retries; a 500 counts as failed and may end as a dead letter
MAX_TEXT = 80
MAX_BODY = 2**24
"""Bytes. A longer body is not read and gets 413: anyone may connect if --host is a public address."""


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
    show_envvar=True,
    callback=read_keys,
    help="Verify with this secret (whsec_…), or - for a line of standard input; repeatable.",
)
@click.option(
    "--public-key",
    "public_keys",
    multiple=True,
    envvar="HOOKGW_PUBLIC_KEY",
    show_envvar=True,
    callback=read_keys,
    help="Verify v1a signatures with this key (whpk_…); repeatable.",
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
@click.option(
    "--forward-to",
    metavar="URL",
    callback=read_target,
    help="Pass each request on to this URL, and respond as it does; 502 if it does not respond.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.pass_context
def listen(
    ctx: click.Context,
    host: str,
    port: int,
    keys: tuple[VerifyingKey, ...],
    public_keys: tuple[VerifyingKey, ...],
    status: int,
    fail_rate: float,
    forward_to: str | None,
    as_json: bool,
) -> None:
    """Receive webhooks on this machine, verify and print them.

    With --secret or --public-key, a request without a valid signature gets 401. A body of more than 16 MiB
    is not read and gets 413. Ctrl-C stops the receiver.

    With --forward-to, verified requests go to another server with their headers and body unchanged. A URL
    without a path keeps the path of each request.

    hookgw does not deliver to this machine unless you allow it. Start it with:

    \b
        HOOKGW_DELIVERY__ALLOW_NETWORKS='["127.0.0.0/8"]' hookgw serve
    """
    if forward_to is not None and ctx.get_parameter_source("status") is not ParameterSource.DEFAULT:
        raise click.UsageError("With --forward-to, the other server gives the status: leave out --status.")
    options = ListenOptions(keys=keys + public_keys, status=status, fail_rate=fail_rate, as_json=as_json)
    run_to_end(run, host, port, options, forward_to)


@dataclass(frozen=True, kw_only=True)
class ListenOptions:
    """How to respond to requests, and how to print them.

    Attributes:
        keys: verify signatures with these keys; without keys, verify nothing.
        fail_rate: the fraction of requests that get 503 instead, from 0 to 1.
        random_number: returns a number from 0 up to, but not including, 1.
    """

    keys: tuple[VerifyingKey, ...] = ()
    status: int = 200
    fail_rate: float = 0.0
    as_json: bool = False
    random_number: Callable[[], float] = random.random

    def respond(self, request: Received, now: float) -> Answer:
        """Print a line about a request and return the response. ``now`` is in seconds since the epoch."""
        event = read_received_event(request, self.keys, now)
        status = self._refusal(event) or self.status
        self._show(request, event, now, status)
        return answer(status)

    async def forward(self, request: Received, now: float, forwarder: Forwarder) -> Answer:
        """Pass a request on, print a line about it, and return the response.

        A request that is refused (a wrong signature, or by chance) is not passed on.
        """
        event = read_received_event(request, self.keys, now)
        refusal = self._refusal(event)
        if refusal is not None:
            self._show(request, event, now, refusal)
            return answer(refusal)
        forwarded = await forwarder.forward(request)
        given = answer(forwarded.status, forwarded.body, headers=forwarded.headers)
        try:
            self._show(request, event, now, forwarded.status, forwarded)
        except (Failed, ReaderGone) as error:
            failure = error

            def fail() -> Iterable[bytes]:
                raise failure

            # The other server has the event: without its answer, hookgw would send it again.
            return given.then(Stream(fail))
        return given

    def _refusal(self, event: ReceivedEvent) -> int | None:
        # hookgw retries after a 401: with the right secret, the same delivery still arrives.
        if event.verified is False:
            return HTTPStatus.UNAUTHORIZED
        return FAILURE_STATUS if self.random_number() < self.fail_rate else None

    def _show(
        self,
        request: Received,
        event: ReceivedEvent,
        now: float,
        status: int,
        forwarded: Forwarded | None = None,
    ) -> None:
        if self.as_json:
            fields = {
                "at": rfc3339(now),
                "answered": status,
                "method": request.method,
                "target": request.target,
                **msgspec.to_builtins(event),
                "body": request.body.decode(errors="replace"),
            }
            if forwarded is not None:
                fields["forwarded"] = {
                    "duration": round(forwarded.seconds * 1000, 3),
                    "error": forwarded.error,
                    "body": forwarded.body.decode(errors="replace"),
                }
            show_json_line(fields)
            return
        clock = datetime.fromtimestamp(now).astimezone().strftime("%H:%M:%S.%f")[:-3]
        if event.verified is None:
            signature = "signature not checked"
        else:
            signature = "verified" if event.verified else f"NOT VERIFIED: {event.problem}"
        subject = f"{event.kind or request.method + ' ' + request.target}  {event.instance or '-'}"
        outcome = ""
        if forwarded is not None:
            outcome = f"  forwarded in {forwarded.seconds * 1000:.0f} ms"
            if forwarded.error is not None:
                outcome = f"  NOT FORWARDED: {forwarded.error}"
        text = f'  "{event.text[:MAX_TEXT]}"' if event.text else ""
        # Anyone may send a request: escape sequences in it must not reach the terminal.
        line = f"{clock}  {status}  {subject}  attempt {event.attempt or '-'}  {signature}{outcome}{text}"
        say(line)


async def run(host: str, port: int, options: ListenOptions, forward_to: str | None = None) -> None:
    """Listen until a signal arrives.

    Args:
        forward_to: pass requests on to this URL, and respond as it does.

    Raises:
        StartError: the address cannot be listened on. It comes in an exception group.
    """

    async def respond(request: Received) -> Answer:
        # The receiver of the test kit records every request; a command that runs for days must not.
        receiver.requests.clear()
        if forwarder is None:
            return options.respond(request, time.time())
        return await options.forward(request, time.time(), forwarder)

    stop = trio.CancelScope()
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        forwarder = None
        if forward_to is not None:
            forwarder = await stack.enter_async_context(open_forwarder(forward_to))
        await nursery.start(cancel_on_signal, stop)
        receiving = open_receiver(
            host=host,
            port=port,
            default=respond,
            max_body=MAX_BODY,
            on_fault=lambda fault: say(fault, err=True),
        )
        try:
            receiver = await stack.enter_async_context(receiving)
        # open_receiver opens its own nursery, so even a port in use arrives in a group.
        except* OSError as group:
            reason = group.exceptions[0]
            is_host = isinstance(reason, socket.gaierror) or (
                isinstance(reason, OSError) and reason.errno == errno.EADDRNOTAVAIL
            )
            other = "address with --host" if is_host else "port with --port"
            raise StartError(f"Cannot listen on {host}:{port}: {reason}. Choose another {other}.") from group
        # To standard error: standard output is one line per request, also with --json.
        to = "" if forward_to is None else f" and forwarding to {with_masked_user(forward_to)}"
        say(f"Listening on {receiver.url}{to} (press Ctrl-C to stop)", err=True)
        with stop:
            await trio.sleep_forever()
        await stack.aclose()
        nursery.cancel_scope.cancel()
