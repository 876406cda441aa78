"""Sends spans and metrics to the collector, in the background and without ever holding anything up."""

from __future__ import annotations

import time
from collections import deque
from functools import partial
from itertools import islice

import httpx
import structlog
import trio

from hookgw import Gateway
from hookgw.connectors import retry_after_of
from hookgw.kernel.masking import mask_secrets

from .options import Options
from .otlp import Encoder, problem_in, refusal_in
from .tracing import Span

logger = structlog.get_logger("hookgw.otel")

BATCH = 500
"""Spans of one request."""
COLLECT = 1.0
"""Seconds for which spans are collected, unless there are enough for a request."""
TIMEOUT = 10.0
"""Seconds that the collector may take for a request."""
WAITS = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds between attempts while the collector does not answer."""
LONGEST_RETRY_AFTER = 60.0
LAST_REPORT = 3.0
"""Seconds for what is left at the end."""
# The OTLP specification, "Retryable Response Codes": all others would fail again.
_RETRYABLE = frozenset({429, 502, 503, 504})


class Exporter:
    """Collects spans, and sends them and the metrics."""

    def __init__(self, options: Options) -> None:
        self._started_at = time.time()
        self.use(options)
        self._spans: deque[Span] = deque()
        self._lost = 0
        self._is_enough = trio.Event()
        # By signal, what the log says: an outage of a night is one line.
        self._told: dict[str, str] = {}

    def use(self, options: Options) -> None:
        self._options = options
        self._url = options.endpoint.rstrip("/")
        self._server = str(httpx.URL(options.endpoint).copy_with(path="/", query=None)).rstrip("/")
        self._encoder = Encoder(options, started_at=self._started_at)

    def add(self, span: Span) -> None:
        """Take a finished span, or drop it if too many wait."""
        if len(self._spans) >= self._options.queue:
            self._lost += 1
            return
        self._spans.append(span)
        if len(self._spans) >= BATCH:
            self._is_enough.set()

    async def run(self, gateway: Gateway) -> None:
        """Send until cancelled, then send what is left, for at most :data:`LAST_REPORT`."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_spans, gateway.http)
                nursery.start_soon(self._send_metrics, gateway)
        finally:
            with trio.move_on_after(LAST_REPORT, shield=True):
                while self._spans:
                    await self._send_batch(gateway.http, repeats=False)
                await self._report(gateway)

    async def _send_spans(self, http: httpx.AsyncClient) -> None:
        while True:
            with trio.move_on_after(COLLECT):
                await self._is_enough.wait()
            self._is_enough = trio.Event()
            while self._spans:
                await self._send_batch(http, repeats=True)

    async def _send_batch(self, http: httpx.AsyncClient, *, repeats: bool) -> None:
        if self._lost:
            logger.warning("spans lost, because the collector does not keep up", count=self._lost)
            self._lost = 0
        # They stay in the queue until they are sent, because a shutdown may interrupt this.
        batch = list(islice(self._spans, BATCH))
        # In a thread: 500 spans take some milliseconds.
        body = await trio.to_thread.run_sync(self._encoder.spans, batch)
        await self._send(http, "traces", body, repeats=repeats)
        for _ in batch:
            self._spans.popleft()

    async def _send_metrics(self, gateway: Gateway) -> None:
        while True:
            await trio.sleep(self._options.interval)
            await self._report(gateway)

    async def _report(self, gateway: Gateway) -> None:
        if not self._options.metrics:
            return
        families = await gateway.metrics.collect()
        body = await trio.to_thread.run_sync(partial(self._encoder.metrics, families, now=time.time()))
        # Sent once: the next report has newer figures.
        await self._send(gateway.http, "metrics", body, repeats=False)

    async def _send(self, http: httpx.AsyncClient, signal: str, body: bytes, *, repeats: bool) -> None:
        """Send a request, and repeat it until the collector has answered if ``repeats``.

        What the collector refuses is lost, and the log says why, once for each reason.
        """
        headers = {
            **self._options.headers,
            "content-type": "application/x-protobuf",
            "content-encoding": "gzip",
        }
        waits = iter(WAITS)
        while True:
            wait = next(waits, WAITS[-1])
            said = {}
            try:
                response = await http.post(
                    f"{self._url}/v1/{signal}", content=body, headers=headers, timeout=TIMEOUT
                )
            except httpx.HTTPError as error:
                reason = f"{type(error).__name__}: {error}"
            else:
                if response.is_success:
                    if problem := problem_in(response.content, of_traces=signal == "traces"):
                        self._tell("the collector warns", signal, problem)
                    elif self._told.pop(signal, None):
                        logger.info("the collector takes reports again", signal=signal)
                    return
                reason = f"status {response.status_code}"
                # Beside the reason: it may differ each time, and would be a line each time.
                said = {"answer": self._refusal_of(response)}
                if response.status_code not in _RETRYABLE:
                    self._tell("the collector refuses a report", signal, reason, **said)
                    return
                wait = max(wait, min(retry_after_of(response) or 0, LONGEST_RETRY_AFTER))
            self._tell("sending to the collector failed", signal, reason, **said)
            if not repeats:
                return
            await trio.sleep(wait)

    def _refusal_of(self, response: httpx.Response) -> str:
        said = refusal_in(response.content, content_type=response.headers.get("content-type", ""))
        return mask_secrets(said, self._options.headers.values())[:200]

    def _tell(self, event: str, signal: str, reason: str, **more: str) -> None:
        if self._told.get(signal) == reason:
            return
        self._told[signal] = reason
        if "delivery.allow_networks" in reason:
            # That setting would open the address to every registration.
            more["fix"] = f'To allow it for this plugin alone, add "{self._server}" to its servers.'
        elif "HTTP/2 alone" in reason:
            # Over TLS, a server of gRPC closes the connection without a word, as others may do.
            more["fix"] = "If this is the port for gRPC (4317), use the one for OTLP over HTTP, usually 4318."
        elif reason == "status 404" or "unsupported path" in more.get("answer", ""):
            # Jaeger takes no metrics; VictoriaMetrics takes metrics below a path of its own alone.
            more["fix"] = f"Correct the path of endpoint, or, if it takes no {signal}, set {signal}: false."
        logger.warning(event, signal=signal, reason=reason, **more)
