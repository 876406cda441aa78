"""OTLP's messages in Protocol Buffers. No I/O.

https://opentelemetry.io/docs/specs/otlp/ describes them.
"""

from __future__ import annotations

import gzip
import socket
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import hookgw

from .options import Options
from .tracing import Attributes, Span

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as OtlpMetric
    from prometheus_client.core import Metric

_SECOND = 10**9
_ERROR = 2
_INSTANCE = str(uuid.uuid4())
_SAMPLED = 1


class Encoder:
    """Encodes spans and metrics of this service. Its methods may run in a thread."""

    def __init__(self, options: Options, *, started_at: float) -> None:
        self._started = int(started_at * _SECOND)
        self._resource: Attributes = {
            "service.name": options.service,
            "service.version": hookgw.__version__,
            "service.instance.id": _INSTANCE,
            "host.name": socket.gethostname(),
            **options.resource,
        }

    def spans(self, spans: Sequence[Span]) -> bytes:
        """Return the gzipped body of a request to ``/v1/traces``."""
        # Imported here: without an endpoint, the package need not be installed.
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        request = ExportTraceServiceRequest()
        found = request.resource_spans.add()
        found.resource.attributes.extend(_attributes(self._resource))
        scope = found.scope_spans.add()
        scope.scope.name, scope.scope.version = "hookgw", hookgw.__version__
        for span in spans:
            made = scope.spans.add(
                trace_id=span.trace,
                span_id=span.id,
                parent_span_id=span.parent,
                trace_state=span.state,
                name=span.name,
                kind=span.kind,
                start_time_unix_nano=int(span.start * _SECOND),
                end_time_unix_nano=int(span.end * _SECOND),
                flags=_SAMPLED,
            )
            made.attributes.extend(_attributes(span.attributes))
            if span.error is not None:
                made.status.code = _ERROR
                made.status.message = span.error
        return gzip.compress(request.SerializeToString(), 1)

    def metrics(self, families: Iterable[Metric], *, now: float) -> bytes:
        """Return the gzipped body of a request to ``/v1/metrics``."""
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        request = ExportMetricsServiceRequest()
        found = request.resource_metrics.add()
        found.resource.attributes.extend(_attributes(self._resource))
        scope = found.scope_metrics.add()
        scope.scope.name, scope.scope.version = "hookgw", hookgw.__version__
        # Prometheus refuses a report with a metric that has no data, and all that is beside it.
        for family in (family for family in families if family.samples):
            made = scope.metrics.add(name=family.name, description=family.documentation)
            self._fill(made, family, int(now * _SECOND))
        return gzip.compress(request.SerializeToString(), 1)

    def _fill(self, made: OtlpMetric, family: Metric, now: int) -> None:
        from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

        if family.type == "histogram":
            made.histogram.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
            buckets = [sample for sample in family.samples if sample.name.endswith("_bucket")]
            counts = [int(sample.value) for sample in buckets]
            made.histogram.data_points.add(
                start_time_unix_nano=self._started,
                time_unix_nano=now,
                count=counts[-1],
                sum=next(sample.value for sample in family.samples if sample.name.endswith("_sum")),
                explicit_bounds=[float(sample.labels["le"]) for sample in buckets[:-1]],
                # Prometheus adds up all buckets below; OTLP counts each for itself.
                bucket_counts=[here - below for here, below in zip(counts, [0, *counts], strict=False)],
            )
        elif family.type == "counter":
            made.sum.is_monotonic = True
            made.sum.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
            for sample in family.samples:
                point = made.sum.data_points.add(
                    start_time_unix_nano=self._started, time_unix_nano=now, as_double=sample.value
                )
                point.attributes.extend(_labels(sample.labels))
        else:
            for sample in family.samples:
                point = made.gauge.data_points.add(time_unix_nano=now, as_double=sample.value)
                point.attributes.extend(_labels(sample.labels))


def problem_in(body: bytes, *, of_traces: bool) -> str | None:
    """Return what a collector that answered 200 did not accept, or warns of; ``None`` for nothing."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    try:
        if of_traces:
            traces = ExportTraceServiceResponse.FromString(body).partial_success
            rejected, reason = traces.rejected_spans, traces.error_message
        else:
            metrics = ExportMetricsServiceResponse.FromString(body).partial_success
            rejected, reason = metrics.rejected_data_points, metrics.error_message
    except DecodeError:
        return None  # many collectors answer with JSON or text
    return f"{rejected} rejected: {reason}" if rejected or reason else None


def refusal_in(body: bytes, *, content_type: str) -> str:
    """Return what a collector that refused a report says of it; empty if it says nothing."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.trace.v1.trace_pb2 import Status

    if not content_type.startswith("application/x-protobuf"):
        return " ".join(body.decode(errors="replace").split())
    try:
        # It is google.rpc.Status, whose message is in the same field as that of a span's status.
        return str(Status.FromString(body).message)
    except DecodeError:
        return ""


def _labels(labels: Mapping[str, str]) -> list[KeyValue]:
    # For Prometheus, "instance" is service.instance.id, and replaces it: all instances would be one series.
    # When Prometheus scrapes, the label gets this name.
    return _attributes(
        {"exported_instance" if name == "instance" else name: value for name, value in labels.items()}
    )


def _attributes(attributes: Mapping[str, str | int | float | bool]) -> list[KeyValue]:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

    found = []
    for name, value in attributes.items():
        if isinstance(value, bool):
            any_value = AnyValue(bool_value=value)
        elif isinstance(value, int):
            any_value = AnyValue(int_value=value)
        elif isinstance(value, float):
            any_value = AnyValue(double_value=value)
        else:
            # Protocol Buffers refuse halves of surrogate pairs.
            any_value = AnyValue(string_value=value.encode("utf-8", "replace").decode())
        found.append(KeyValue(key=name, value=any_value))
    return found
