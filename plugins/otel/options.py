"""The options of the plugin. No I/O."""

from __future__ import annotations

from typing import Annotated, Any

import httpx
import msgspec
from msgspec import Meta

from hookgw.kernel.errors import Invalid
from hookgw.kernel.rules import check_headers
from hookgw.kernel.units import Duration, parse_duration

NEEDED = "opentelemetry-proto is not installed. Install hookgw with its extra: pip install 'hookgw[otel]'."


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The block ``plugins.options.otel``.

    Attributes:
        endpoint: the URL of the collector's OTLP receiver for HTTP; ``/v1/traces`` and ``/v1/metrics`` are
            appended.
        headers: sent with each request.
        traces, metrics: which of them to send.
        interval: the time between two reports of the metrics.
        sample: the part of the traces that is sent, from 0 to 1. A trace of a producer that says whether it
            is recorded is sent or not, as the producer says.
        service: the name of this service.
        resource: further attributes of it.
        queue: the most spans that wait; further ones are lost, and counted in the log.
    """

    endpoint: str
    headers: dict[str, str] = {}
    traces: bool = True
    metrics: bool = True
    interval: Duration = Duration(15)
    sample: Annotated[float, Meta(ge=0, le=1)] = 1.0
    service: Annotated[str, Meta(min_length=1)] = "hookgw"
    resource: dict[str, str] = {}
    queue: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000


def read_options(options: dict[str, Any]) -> Options:
    """Return the options in the block.

    Raises:
        ValueError: an unknown name, a wrong type, an impossible value, or a package is missing; the message
            says which.
    """
    found = msgspec.convert(options, Options, dec_hook=lambda _, value: parse_duration(value))
    try:
        url = httpx.URL(found.endpoint)
    except httpx.InvalidURL as error:
        raise ValueError(f"endpoint: {error}") from None
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
        raise ValueError("endpoint: use the URL of the collector, such as http://collector:4318")
    for path in ("/v1/traces", "/v1/metrics"):
        if url.path.rstrip("/").endswith(path):
            raise ValueError(f"endpoint: leave out {path}, which is appended")
    try:
        check_headers(found.headers, "headers")
    except Invalid as error:
        raise ValueError(error) from None
    if found.interval < 1:
        raise ValueError("interval: use 1s or longer")
    try:
        # Here, not at the first report: the start says what is missing.
        import opentelemetry.proto.collector.metrics.v1.metrics_service_pb2
        import opentelemetry.proto.collector.trace.v1.trace_service_pb2  # noqa: F401
    except ImportError:
        raise ValueError(NEEDED) from None
    return found
