"""Names the cause of a problem, so that problems with the same one are shown together. No I/O."""

from __future__ import annotations

import re

from hookgw.kernel.masking import without_user
from hookgw.kernel.schemes import standard_port
from hookgw.kernel.target_url import parse_destination
from hookgw.records.deliveries import Outcome

_ANSWERED = re.compile(r"(?<!the proxy )answered (\d{3})")
_MISSING = re.compile(r"The plugin (.+), which this webhook has options for, does not run\.")
_PROXY = re.compile(r"(?:No connection to the|The) proxy (\S+?):? ")
_THROUGH = re.compile(r" through the proxy (\S+): ")
_LOOKUP_FAILED = re.compile(
    r"Looking up \S+ took longer|Temporary failure in name resolution|could not be resolved: Try again"
)
"""A name server that does not answer, in the words of glibc and musl: our own, or that of a domain. A name
that does not exist is no such failure."""
_NO_ROUTE = re.compile(r"Network (?:is )?unreachable\.?")


def host_of(url: str) -> str:
    """Return the host of a URL with its port if that is not the usual one; the URL itself if it has none."""
    try:
        target = parse_destination(url)
    except ValueError:  # the text of a disabled webhook
        return without_user(url)
    host = target.server_hostname
    shown = (f"[{host}]" if ":" in host else host) or url
    return shown if target.port in (0, standard_port(target.scheme)) else f"{shown}:{target.port}"


def cause_of_failure(url: str, outcome: Outcome | None, error: str | None) -> str:
    """Return why attempts at a URL fail, in a few words that are the same for each attempt.

    Args:
        url: the URL, or a name of a receiver that fetches.
    """
    host, text = host_of(url), error or ""
    answered = _ANSWERED.search(text)
    if outcome is None and not text:
        return f"{host} fails"
    if outcome is Outcome.UNREACHABLE and (cause := _cause_on_this_side(text)):
        return cause
    if answered is not None:
        return f"{host} answers {answered[1]}"
    if missing := _MISSING.match(text):
        return f"The plugin {missing[1]} does not run"
    if outcome is Outcome.BLOCKED:
        return f"{host} is blocked"
    if outcome is Outcome.UNANSWERED:
        return f"{host} acknowledges nothing" if "lease ended" in text else f"{host} does not answer in time"
    if "refused" in text.casefold() and "certificate" not in text.casefold():
        return f"{host} refuses connections"
    if "certificate" in text.casefold():
        return f"{host} has a certificate that is refused"
    if outcome is Outcome.UNREACHABLE:
        return f"{host} cannot be reached"
    return f"{host} fails"


def _cause_on_this_side(text: str) -> str | None:
    """Return a cause that is the same for all hosts: without a network, no receiver can be reached."""
    if _LOOKUP_FAILED.search(text):
        return "Name servers do not answer"
    if proxy := _PROXY.match(text) or (text.endswith("it may be no HTTP proxy.") and _THROUGH.search(text)):
        return f"The proxy {proxy[1]} cannot be used"
    # Many networks have no IPv6: an address without a route says nothing if another one was tried.
    if all(_NO_ROUTE.search(reason) for reason in text.split("; ")):
        return "hookgw has no route to receivers"
    return None


def cause_of_disabling(url: str, reason: str) -> str:
    answered = _ANSWERED.search(reason)
    return (
        f"{host_of(url)} {f'answers {answered[1]}' if answered else 'failed too long'}: webhooks are disabled"
    )


def cause_of_closing(reason: str) -> str:
    """Return why an account is not connected, in a few words."""
    first = re.split(r"(?<=[.:;])\s", reason.strip(), maxsplit=1)[0].rstrip(".:; ")
    return f"Not connected: {first}" if first else "Not connected"
