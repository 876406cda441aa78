"""Translates sentences that are English where they are made. No I/O.

The HTTP API, the log and the audit have them in English, and the store keeps some (why an attempt failed, why
a webhook is disabled). Pages and alerts translate such a sentence by its template: an error brings its own
one; those of other sentences are here, as the code makes them (a test compares).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from string import Formatter
from typing import Any

from hookgw.kernel.language import ENGLISH, N_, current_language, in_language, translated
from hookgw.kernel.local_formats import number_text, swap_signs
from hookgw.kernel.sentences import TEXT, Sentence
from hookgw.locale.catalogues import by_context

TEMPLATES = (
    # Why an attempt failed.
    N_("The receiver answered {status}."),
    N_("The receiver answered {status}; redirects are not followed. Register the final URL."),
    N_("The receiver answered {status} to {url}; redirects are not followed. Register the final URL."),
    N_("The receiver answered {status}: the event is larger than it takes. Raise its limit for bodies."),
    N_("The receiver answered {status}: it wants a CSRF token. Exempt the URL from it."),
    N_(
        "The receiver answered {status}: it gets more requests than it takes. Set rate of the registration "
        "below its limit."
    ),
    N_("The receiver answered {status} to {url}: it wants a login. Exempt the URL from it."),
    N_(
        "The receiver answered {status}: redirects are not followed. The script has run; let its doPost "
        "end with return HtmlService.createHtmlOutput(), which answers 200."
    ),
    N_("No connection was established within {seconds} s."),
    N_("No connection to port {port} of {host}: {reason}."),
    N_("Looking up {host} took longer than {seconds} s."),
    N_("Connecting to port {port} of {host} took longer than {seconds} s."),
    N_("The host {host} could not be resolved: {reason}."),
    N_("The host {host} has no address."),
    N_("The receiver did not respond within {seconds} s."),
    N_("The head of the response was not complete within {seconds} s."),
    N_("The receiver did not read the request within {seconds} s."),
    N_("The receiver closed the connection without responding."),
    N_("The receiver closed the connection in the middle of its response."),
    N_("The receiver broke the connection without responding: {reason}."),
    N_("The receiver broke the connection in the middle of its response: {reason}."),
    N_("The receiver broke the connection before the whole request was sent: {reason}."),
    N_("Its port wants TLS: use https:// in the URL."),
    N_("It wants a CSRF token: exempt the URL from it."),
    N_("It wants a login: exempt the URL from it."),
    N_("It does not serve the host of the URL: add that to the hosts which it allows."),
    N_("No workflow of n8n listens: activate it, and register its production URL."),
    N_("The workflow of n8n takes another method: set the HTTP Method of its Webhook node to POST."),
    N_("The flow is off: turn it on. If it was deleted, register the URL of the new one."),
    N_("The scenario of Make is off: switch it on, then enable the webhook."),
    N_("The tunnel of ngrok is closed: start it again. If it has a new URL then, register that."),
    N_("If it always does, its port may want https://, or HTTP/2 alone: hookgw speaks HTTP/1.1."),
    N_("If it always does, it may speak HTTP/2 alone: let it accept HTTP/1.1, too."),
    N_("The receiver speaks HTTP/2 alone. Let it accept HTTP/1.1, too."),
    N_("The receiver did not respond with HTTP/1 but with TLS. Use https:// in the URL."),
    N_("The receiver did not respond with HTTP/1. Check the scheme, host and port of the URL."),
    N_("The certificate of {place} was refused: {reason}."),
    N_("The TLS handshake with {place} failed: {reason}."),
    N_("This was no TLS: if the receiver speaks plain HTTP, use http:// in the URL."),
    N_("The receiver speaks neither TLS 1.2 nor 1.3, and hookgw nothing older."),
    N_(
        "If it has no certificate for this name, correct the host in the URL, or set tls.serverName of the "
        "registration."
    ),
    N_("If its certificate is for another name, set tls.serverName of the registration."),
    N_("To trust a private authority, set tls.ca of the registration."),
    N_("It requires a client certificate: set tls.clientCertificate and tls.clientKey of the registration."),
    N_(
        "If it requires a client certificate, set tls.clientCertificate and tls.clientKey of the "
        "registration."
    ),
    N_("It refused the certificate in tls.clientCertificate."),
    N_("The TLS handshake with {place} took longer than {seconds} s."),
    N_("Port {port} of {host} is not dialled: hookgw itself listens there."),
    N_(
        "Port {port} of {host} is not dialled: the address is link-local (fe80::/10). It needs a zone, "
        "which URLs do not have: use another address of the host, or a name."
    ),
    N_(
        "No local port is left for another connection to {host}: too many are open, or were closed within "
        "the last minute."
    ),
    N_(
        "Port {port} of {host} is not dialled: the address is {reason}. To allow it, set "
        "delivery.allow_networks: {networks}."
    ),
    N_(
        "Port {port} is not dialled: it is on the list of refused ports{service}. To allow it, leave {port} "
        "out of delivery.refused_ports."
    ),
    N_("Connection refused"),
    N_("Connection reset by peer"),
    N_("Network is unreachable"),
    N_("No route to host"),
    N_("Name or service not known"),
    # Why a delivery is not delivered.
    N_("The retry schedule is exhausted (failed attempts: {count})."),
    N_("The receiver rejected this payload. Once it takes such payloads, send this one again."),
    N_("The receiver answered 410 Gone: the registration is disabled."),
    N_("The receiver was unreachable until the event was older than max_age ({seconds} s)."),
    N_("The receiver did not respond until the event was older than max_age ({seconds} s)."),
    N_("The target address was refused until the event was older than max_age ({seconds} s)."),
    N_("Nobody fetched it until it was older than max_age ({seconds} s)."),
    N_("The filter dropped it. This condition does not hold: {condition}."),
    N_("A plugin filtered it out."),
    N_("The registration was deleted."),
    N_("The registration was disabled."),
    N_("The registration was disabled:"),
    N_("by its owner."),
    N_("The instance was deleted."),
    N_("Cancelled with the key {name}."),
    N_("Cancelled with a global key."),
    N_("Cancelled by hookgw."),
    N_("Attempt {number} was answered late: status {status} after {seconds} s."),
    N_("The attempt was cut off, because the delivery was cancelled. The receiver may have acted on it."),
    N_("This key does not have the right 'payloads'."),
    # Why a webhook fails, and what holds its lane up.
    N_("The last attempts failed; none was made since hookgw started."),
    N_("Disabled."),
    N_("It failed for {seconds} s without one success."),
    N_("{count} deliveries wait."),
    N_("{count} deliveries became dead letters within {time}."),
    N_(
        "The delivery {delivery} of {instance} has been tried for {minutes} minutes, and {count} wait behind "
        "it. If the receiver fails on this one alone, skip it: hookgw delivery cancel {instance} {delivery}. "
        "To give such a delivery up sooner, set retry.maxAge of the webhook."
    ),
    # Problems by their cause.
    N_("{host} fails"),
    N_("{host} answers {status}"),
    N_("{host} is blocked"),
    N_("The plugin {plugin} does not run"),
    N_("Each of {count} hosts"),
    N_("{host} does not answer in time"),
    N_("{host} refuses connections"),
    N_("{host} has a certificate that is refused"),
    N_("{host} cannot be reached"),
    N_("Name servers do not answer"),
    N_("The proxy {proxy} cannot be used"),
    N_("hookgw has no route to receivers"),
    N_("{host} answers {status}: webhooks are disabled"),
    N_("{host} failed too long: webhooks are disabled"),
    N_("{host} is too slow: the backlog is high"),
    N_("No event comes from accounts that are connected"),
    N_("Connected, but no event comes."),
    N_("It fails:"),
    # What is wrong with the system.
    N_("The disk has {left} left for events, less than {limit}."),
    N_("The data file {path} cannot be used now: {error} ({code})."),
    N_("1 stored delivery waits for the end of an older transaction in the database server."),
    N_("{count} stored deliveries wait for the end of an older transaction in the database server."),
    N_("The node does not answer."),
    N_("This is a test of the channel {channel}."),
    N_("Nothing is wrong."),
    # Why an account is not connected.
    N_("Not connected"),
    N_("Not connected: {reason}"),
    N_("Not connected."),
    N_("The instance was logged out of its connector."),
    N_("The network logged the account out."),
    N_("The connector restarts."),
    N_("The connector has not reported a connection yet."),
    N_("The connector reported that it is closed (statusReason {reason})."),
    N_("It has not been connected since hookgw started: connect it."),
    N_("An event reported that it is closed."),
    N_("Its node does not answer, or it moves to another node."),
    # What an error says of a value.
    N_("1 to 64 letters, digits, '.', '_', '@' or '-'"),
    N_("2h for in two hours, tomorrow 9:00, or 2026-11-20 14:00"),
    N_("2h for two hours ago, today 14:00, or 2026-11-20 14:00"),
    N_("a duration such as 200ms, 5s, 10m, 1h or 3d"),
    N_("a rate such as 20/s, 100/m or 1000/h"),
    N_("a status such as 503, or 5xx for all that begin so"),
    N_("an RFC 3339 time such as 2026-11-20T12:00:00Z, or a time ago: 10m, 2h, 3d"),
    N_("expected {form}, got {value}"),
    N_("expected {form}, with a count from 1 to {most}, got {value}"),
    N_("must be whsec_ followed by the base64 of 24 to 64 bytes."),
    N_("must be whsk_ followed by the base64 of 64 bytes: an ed25519 seed and its public key."),
    N_(", line {number}: this header is there twice; it has one value"),
    N_(", line {number}: write a header as “name: value”"),
    N_(": this is not JSON: {reason}"),
    N_("is not JSON: {reason}"),
    N_("is empty: JSON is expected"),
    N_("JSON is malformed: {reason}"),
    N_("a string"),
    N_("an object"),
    N_("a list"),
    N_("a number"),
    N_("in the request, or for all instances in the configuration at {place}"),
    N_("The URL"),
    N_("The data"),
    N_("The label"),
    N_("The name"),
    N_("The name of the instance"),
    N_("The name of the key"),
    N_("The kind"),
    N_("The tag"),
)
_PLACEHOLDER = re.compile(r"\\\{(\w+)\\\}", re.ASCII)
_VALUE = r"(?:(?![.!?] [A-Z]).)+?"
"""A value in a sentence is within one."""
_GROUPED = re.compile(r"\d{1,3}(,\d{3})+( \w+)?", re.ASCII)
_END = re.compile(r"(?<=[.:;!?]) ")
_MOST_PARTS = 8


def sentence_text(text: str) -> str:
    """Return a sentence, or several with spaces between, in the current language.

    What has no template, as texts of plugins and networks, stays as it is.
    """
    language = current_language()
    if language == ENGLISH or not text:
        return text
    if isinstance(text, Sentence) and text.id != TEXT:
        template = by_context(language).get(text.id)
        return str(text) if template is None else _filled(template, text.values)
    return retold(str(text), language)


def text_of_error(id_: str, values: Mapping[str, Any], english: str) -> str:
    """Return a sentence of an error in the current language, by the id that another process has sent.

    That process may be of another version: it stays English if the values do not fit.
    """
    template = by_context(current_language()).get(id_)
    if template is None:
        return sentence_text(english)
    try:
        return _filled(template, values)
    except (LookupError, ValueError, TypeError, AttributeError):
        return english


def _filled(template: str, values: Mapping[str, Any]) -> str:
    at = str(values.get("at", ""))
    place = at.removesuffix(": ")
    told = retold(place, current_language()) + at.removeprefix(place)
    return told + _Values().vformat(template, (), values)


class _Values(Formatter):
    """Writes numbers with a comma in their format, and phrases of the code, as the language does."""

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        value = super().get_value(key, args, kwargs)
        # A phrase has spaces; most names that people give have none.
        return retold(value, current_language()) if isinstance(value, str) and " " in value else value

    def format_field(self, value: Any, format_spec: str) -> Any:
        if format_spec == "," and isinstance(value, int | float):
            return number_text(value, current_language())
        text = super().format_field(value, format_spec)
        return swap_signs(text, current_language()) if format_spec.startswith(",") else text


@lru_cache(4_096)
def retold(text: str, language: str) -> str:
    if _GROUPED.fullmatch(text):
        return swap_signs(text, language)
    with in_language(language):
        whole = _one(text, language)
        if whole is not None:
            return whole
        # Several sentences: the longest beginning that is known, and the rest.
        ends = [found.start() for found in _END.finditer(text)][:_MOST_PARTS]
        for end in reversed(ends):
            begin = _one(text[:end], language)
            if begin is not None:
                return f"{begin} {retold(text[end + 1 :], language)}"
        if ends:
            return f"{text[: ends[0]]} {retold(text[ends[0] + 1 :], language)}"
        return text


def _one(text: str, language: str) -> str | None:
    """Return the translation of one sentence that is known; ``None`` for any other one."""
    for template, pattern in _patterns().items():
        matched = pattern.fullmatch(text)
        if matched:
            values = {name: retold(value, language) for name, value in matched.groupdict().items()}
            found = translated(template)
            return found.format_map(values) if values else found
    return None


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    """Return what finds the values in a sentence, the most particular templates first."""
    by_words = sorted(TEMPLATES, key=lambda one: -len(re.sub(r"\{\w+\}", "", one)))
    return {one: re.compile(_pattern(one), re.DOTALL) for one in by_words}


def _pattern(template: str) -> str:
    seen: set[str] = set()

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name in seen:
            return f"(?P={name})"
        seen.add(name)
        return f"(?P<{name}>{_VALUE})"

    return _PLACEHOLDER.sub(value, re.escape(template))
