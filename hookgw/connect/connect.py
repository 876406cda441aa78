"""``hookgw connect``: a receiver without a public address fetches its deliveries, and posts them locally.

It acknowledges a delivery before it posts the next one, so that a kill, of either side and at any moment,
repeats at most the delivery that was in progress, and nothing overtakes:

- What got a 2xx is acknowledged. While hookgw cannot be reached, the acknowledgement is tried again.
- Another answer, or none in time, is reported as failed: hookgw's retry schedule decides.
- While the local server does not run, or says that it is busy, the deliveries are given back without an
  attempt, and nothing becomes a dead letter, however long that lasts.
"""

from __future__ import annotations

import shlex
import socket
import time
from base64 import b64decode
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

import click
import trio

from hookgw.command.client import Client, server_options
from hookgw.command.failure import Failed, ServerUnavailable
from hookgw.command.names import complete_labels, instance_argument
from hookgw.command.output import say, show_json_line
from hookgw.command.process import cancel_on_signal, run_to_end
from hookgw.delivery.outcome import outcome_of_status, parse_retry_after
from hookgw.kernel.language import gettext as _
from hookgw.kernel.masking import with_masked_user
from hookgw.kernel.schemes import PULL_URL
from hookgw.kernel.times import rfc3339
from hookgw.listen.forward import Forwarded, Forwarder, open_forwarder, read_target
from hookgw.records.deliveries import Outcome
from hookgw.records.registrations import DEFAULT_LABEL
from hookgw.testing.received import Received

CONNECT_LABEL = "connect"
"""The label of the registration that it makes if that with the default label is posted to a URL."""
WAIT = 10
"""Seconds that one fetch waits for deliveries: less than proxies wait for a response (Envoy: 15 s)."""
LEASE = 60
"""Seconds for a delivery. It is longer than the deadline of a local request."""
FIRST_WAIT, LAST_WAIT = 1.0, 30.0
"""Seconds before the next try: doubled from the first wait up to the last."""
_NEEDS_WAIT = (Outcome.UNREACHABLE, Outcome.BLOCKED)


@click.command()
@instance_argument()
@click.option(
    "--to",
    "url",
    metavar="URL",
    required=True,
    callback=read_target,
    help="Post each delivery to this URL on this machine or in its network.",
)
@click.option("--label", shell_complete=complete_labels, help="The webhook whose deliveries are fetched.")
@click.option(
    "--consumer",
    metavar="NAME",
    help="A name of its own for each place that fetches.  [default: the name of this machine]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@server_options
def connect(
    client: Client, instance: str, url: str, label: str | None, consumer: str | None, as_json: bool
) -> None:
    """Fetch an instance's deliveries, and post them locally.

    The server needs no public address: hookgw connects to nothing. Run this beside it, with a key of the
    instance. Deliveries come in order, and wait on hookgw's disk while this does not run. What the server
    answers with a 2xx is delivered. Ctrl-C stops it.

    The first time, it makes a webhook with the URL pull:, under the label `connect` if `default` is taken.

    \b
        hookgw connect loja1 --to http://localhost:5678/webhook
    """
    found = find_or_make(client, instance, label)
    name = consumer or f"connect@{socket.gethostname()}"[:128]
    run_to_end(run, Connection(client, instance, found, name, as_json=as_json), url)


def find_or_make(client: Client, instance: str, label: str | None) -> str:
    """Return the label of the registration to fetch from. Make it if there is none.

    Raises:
        Failed: the one that ``label`` names is posted to a URL or disabled, or it is not clear which one is
            meant.
    """
    listed = client.call("GET", "webhook", "list", instance)["registrations"]
    urls = {one["label"]: one for one in listed}
    pulled = [name for name, one in urls.items() if one["url"] == PULL_URL]
    if label is None:
        if len(pulled) > 1 and not {DEFAULT_LABEL, CONNECT_LABEL} & set(pulled):
            raise Failed(
                _(
                    "Several webhooks can be fetched: {choices}. Choose one with --label.",
                    choices=", ".join(pulled),
                )
            )
        first = [name for name in (DEFAULT_LABEL, CONNECT_LABEL) if name in pulled] or pulled
        label = first[0] if first else CONNECT_LABEL if DEFAULT_LABEL in urls else DEFAULT_LABEL
    place = f"{shlex.quote(instance)} --label {shlex.quote(label)}"
    if label not in urls:
        client.call("POST", "webhook", "set", instance, label, body={"url": PULL_URL})
        say(
            _(
                "Made the webhook {label} of {instance}, with the URL {pull_url}.",
                label=label,
                instance=instance,
                pull_url=PULL_URL,
            ),
            err=True,
        )
    elif label not in pulled:
        raise Failed(
            _(
                "The deliveries of the webhook {label} are posted to {urls}. Choose another one with "
                "--label: it is made if it does not exist.",
                label=label,
                urls=urls[label]["url"],
            )
        )
    elif not urls[label]["enabled"]:
        raise Failed(
            _(
                "The webhook {label} is disabled. Enable it: hookgw webhook enable {place}.",
                label=label,
                place=place,
            )
        )
    elif urls[label]["paused"]:
        say(
            _(
                "The webhook {label} is paused: its deliveries wait. Resume it: hookgw webhook resume "
                "{place}.",
                label=label,
                place=place,
            ),
            err=True,
        )
    return label


class Connection:
    """Fetches and acknowledges the deliveries of one registration, and prints a line for each.

    Attributes:
        delivered: the cursor of a delivery that arrived, and whose acknowledgement was refused, because
            hookgw was started again meanwhile. If it comes again, it is acknowledged alone: ``after`` would
            go back if another process with this name was faster.
    """

    def __init__(self, client: Client, instance: str, label: str, consumer: str, *, as_json: bool) -> None:
        self._client = client
        self._path = instance, label
        self._consumer = consumer
        self._as_json = as_json
        self._said: tuple[str, ...] = ()
        self.name = f"{instance}/{label}"
        self.delivered: str | None = None

    async def fetch(self, most: int) -> list[dict[str, Any]]:
        """Wait for deliveries; none if there were none for a while.

        Raises:
            Failed: hookgw refuses, or cannot be reached.
        """
        body = {
            "max": most,
            "wait": f"{WAIT}s",
            "lease": f"{LEASE}s",
            "consumer": self._consumer,
        }
        found = await self._call("pull", body, timeout=60.0)
        deliveries: list[dict[str, Any]] = found["deliveries"]
        return deliveries

    async def acknowledge_arrival(self, delivery: dict[str, Any]) -> None:
        """Tell hookgw that a delivery has arrived; see :meth:`acknowledge`."""
        self.delivered = delivery["cursor"]
        await self.acknowledge(ids=[delivery["id"]])
        self.delivered = None

    async def acknowledge(self, **done: Any) -> None:
        """Tell hookgw what became of a delivery, however long it cannot be reached.

        A call is shielded from cancellation, the waits between calls are not.

        Raises:
            Failed: hookgw refuses: the lease has ended.
        """
        wait = FIRST_WAIT
        while True:
            try:
                with trio.CancelScope(shield=True):
                    await self._call("ack", {"consumer": self._consumer, **done}, timeout=20.0)
            except ServerUnavailable as error:
                self.say_once(*error.messages)
                await trio.sleep(wait)
                wait = min(2 * wait, LAST_WAIT)
            else:
                return

    async def _call(self, name: str, body: dict[str, Any], *, timeout: float) -> Any:  # noqa: ASYNC109
        call: Callable[[], Any] = partial(
            self._client.call, "POST", "delivery", name, *self._path, body=body, timeout=timeout
        )
        # A fetch that waits is left alone at the end: what it is given comes back to the same consumer.
        found = await trio.to_thread.run_sync(call, abandon_on_cancel=True)
        if self._said:
            self._said = ()
            say(_("Connected again."), err=True)
        return found

    def say_once(self, *problem: str) -> None:
        """Print a problem, unless it is the same as the last one."""
        if problem != self._said:
            self._said = problem
            say(*problem, err=True)

    def show(self, delivery: dict[str, Any], answered: Forwarded, now: float) -> None:
        headers = delivery["headers"]
        kind, event_id = headers.get("x-event-type", "-"), headers.get("webhook-id", "-")
        if self._as_json:
            show_json_line(
                {
                    "at": rfc3339(now),
                    "delivery": delivery["id"],
                    "kind": kind,
                    "eventId": event_id,
                    "attempt": headers.get("x-attempt"),
                    "answered": answered.status if answered.error is None else None,
                    "error": answered.error,
                    "duration": round(answered.seconds * 1000, 3),
                }
            )
            return
        clock = datetime.fromtimestamp(now).astimezone().strftime("%H:%M:%S.%f")[:-3]
        end = f"{answered.status}" if answered.error is None else f"NOT DELIVERED: {answered.error}"
        say(f"{clock}  {kind}  {event_id}  {end}  in {answered.seconds * 1000:.0f} ms")


async def run(connection: Connection, url: str) -> None:
    """Fetch and post until a signal arrives. A delivery in progress is finished first."""
    stop = trio.CancelScope()
    async with open_forwarder(url) as forwarder, trio.open_nursery() as nursery:
        await nursery.start(cancel_on_signal, stop)
        say(
            _("{name} goes to {url} (press Ctrl-C to stop)", name=connection.name, url=with_masked_user(url)),
            err=True,
        )
        with stop:
            await _fetch_and_post(connection, forwarder)
        nursery.cancel_scope.cancel()


async def _fetch_and_post(connection: Connection, forwarder: Forwarder) -> None:
    most, wait = 100, FIRST_WAIT
    while True:
        try:
            found = await connection.fetch(most)
            if not found:
                wait = FIRST_WAIT
            for delivery in found:
                pause = await _post(connection, forwarder, delivery, wait)
                await trio.lowlevel.checkpoint()
                if pause is not None:
                    most, wait = 1, min(2 * wait, LAST_WAIT)
                    await trio.sleep(pause)
                    break
                most, wait = 100, FIRST_WAIT
        except Failed as error:
            # 409: another one has the deliveries, or the lease has ended. Or hookgw is away.
            connection.say_once(*error.messages)
            await trio.sleep(wait)
            wait = min(2 * wait, LAST_WAIT)


async def _post(
    connection: Connection, forwarder: Forwarder, delivery: dict[str, Any], wait: float
) -> float | None:
    """Post one delivery and tell hookgw what became of it; return how long to wait if it did not arrive.

    Raises:
        Failed: the lease has ended.
    """
    if delivery["cursor"] == connection.delivered:
        await connection.acknowledge_arrival(delivery)
        return None
    text = delivery["body"]
    body = b64decode(delivery["bodyBase64"]) if text is None else text.encode()
    request = Received(
        position=0,
        connection=1,
        method="POST",
        target="/",
        headers=tuple(delivery["headers"].items()),
        body=body,
        http_version="1.1",
        at=0.0,
    )
    # Also at the end: what was posted must be acknowledged, or it comes a second time.
    with trio.CancelScope(shield=True):
        answered = await forwarder.forward(request)
    try:
        connection.show(delivery, answered, time.time())
    finally:
        # Also if nobody can read that, or the disk is full.
        pause = await _acknowledge(connection, delivery, answered, wait)
    return pause


async def _acknowledge(
    connection: Connection, delivery: dict[str, Any], answered: Forwarded, wait: float
) -> float | None:
    outcome = outcome_of_status(answered.status)
    if outcome is Outcome.DELIVERED:
        await connection.acknowledge_arrival(delivery)
        return None
    if outcome in _NEEDS_WAIT:
        await connection.acknowledge(release=True)
        asked = parse_retry_after(answered.headers.get("retry-after"), time.time()) or 0.0
        return max(wait, min(asked, LAST_WAIT))
    reason = answered.error or f"The server answered {answered.status}."
    await connection.acknowledge(failed=[{"id": delivery["id"], "reason": reason[:1000]}])
    return 0.0
