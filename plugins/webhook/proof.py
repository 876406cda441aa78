"""The proof that a request comes from the sender. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from hookgw import IngestRequest, ProofRefused
from hookgw.connectors import is_secret

from .options import Options


def check_proof(
    request: IngestRequest,
    options: Options,
    now: float,
    *,
    url: str = "",
    fields: Sequence[tuple[str, str]] | None = None,
) -> None:
    """Check a request, before anything looks into its body. With both proofs, both must be right.

    Args:
        request: as it arrived.
        options: have one proof or both.
        now: seconds since the epoch.
        url: the instance's ``ingestUrl``, if the scheme signs it.
        fields: of the form in the body, if the scheme signs them; ``None`` if the body is no form.

    Raises:
        ProofRefused: a header is missing, a signature is wrong, or its time is too far off.
    """
    if options.header and not is_secret(request.headers.get(options.header, ""), options.value):
        raise ProofRefused.of(
            "inbound.header_wrong", "The header {header} is missing or wrong.", header=options.header
        )
    if options.secret:
        options.scheme.check(request, options.secret, now=now, url=url, fields=fields)
