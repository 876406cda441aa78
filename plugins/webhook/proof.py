"""The proof that a request comes from the sender. No I/O."""

from __future__ import annotations

from hookgw import IngestRequest, ProofRefused
from hookgw.connectors import is_secret
from hookgw.delivery.signing import SignatureInvalid, verify

from .options import Options


def check_proof(request: IngestRequest, options: Options, now: float) -> None:
    """Check a request, before anything looks into its body. With both proofs, both must be right.

    Args:
        request: as it arrived.
        options: have one proof or both.
        now: seconds since the epoch.

    Raises:
        ProofRefused: a header is missing, a signature is wrong, or its time is more than 5 minutes off.
    """
    if options.header and not is_secret(request.headers.get(options.header, ""), options.value):
        raise ProofRefused(f"The header {options.header} is missing or wrong.")
    if options.key is not None:
        try:
            verify([options.key], request.headers, request.body, now=now)
        except SignatureInvalid as error:
            raise ProofRefused(str(error)) from None
