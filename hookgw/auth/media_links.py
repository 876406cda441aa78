"""Links to inbound files: signed, bound to one instance, and valid for a while. No I/O.

A token is ``base64url(mac + payload)``. The payload has the time of expiry and the connector's reference to
the file; it is readable, not secret. The MAC covers the instance's id, so that a link opens nothing at
another instance, and nothing at a later instance of the same name.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Callable

import msgspec

from hookgw.kernel.base64url import decode_base64url
from hookgw.kernel.errors import Expired, Forbidden, Invalid
from hookgw.kernel.sentences import Sentence
from hookgw.records.inline_media import MEDIA_PATH
from hookgw.records.instances import Instance

MEDIA_KEY_BYTES = 32
"""The length of a key that signs links."""
LONGEST_MEDIA_REFERENCE = 2048
"""Characters of a reference: the link must fit into a request's head, and into what receivers store."""
LONGEST_MEDIA_NAME = 255
"""Characters of a file's name; the rest is cut off."""

_MAC_BYTES = 16
_DOMAIN = b"hookgw media link 1\0"  # another use of the key must not make a MAC that is valid here
_MIMETYPE = re.compile(
    r"[\w!#$&^.+-]{1,127}/[\w!#$&^.+-]{1,127}(; ?[\w-]{1,64}=[\w!#$&^.+-]{1,64}){0,2}", re.ASCII
)
_REFUSED = Sentence(
    "media.link_invalid", "This link is not valid: it was changed, or its instance does not exist."
)


class MediaLink(msgspec.Struct, frozen=True, array_like=True):
    """The content of a link.

    Attributes:
        expires_at: whole seconds since the epoch.
        reference: the connector finds the file by it.
        mimetype, file_name: empty if they are not known.
    """

    expires_at: int
    reference: str
    mimetype: str = ""
    file_name: str = ""


class MediaLinks:
    """Makes links, and checks them.

    Args:
        key: :data:`MEDIA_KEY_BYTES` random bytes, the same after each restart.
        lifetime: seconds for which a link is valid.
        base: the URL or path before ``/media``.
        now: returns the time in seconds since the epoch.
    """

    def __init__(self, key: bytes, lifetime: float, base: str, now: Callable[[], float]) -> None:
        self._key = key
        self._lifetime = lifetime
        self._base = base
        self._now = now

    def url(self, instance: Instance, reference: str, *, mimetype: str = "", file_name: str = "") -> str:
        """Return a link to a file of an instance.

        The mimetype and the name come from the network, often from a stranger: an impossible mimetype is left
        out, and a long name cut.

        Raises:
            Invalid: the reference is empty, too long, or not valid Unicode.
        """
        if not reference or len(reference) > LONGEST_MEDIA_REFERENCE:
            raise Invalid.of(
                "media.reference_length",
                "A reference to a file has 1 to {longest:,} characters.",
                longest=LONGEST_MEDIA_REFERENCE,
            )
        link = MediaLink(
            expires_at=int(self._now() + self._lifetime),
            reference=reference,
            mimetype=mimetype if is_mimetype(mimetype) else "",
            file_name=file_name[:LONGEST_MEDIA_NAME].encode("utf-8", "replace").decode(),
        )
        try:
            payload = msgspec.msgpack.encode(link)
        except UnicodeEncodeError:
            raise Invalid.of(
                "media.reference_not_unicode", "A reference to a file must be valid Unicode."
            ) from None
        token = base64.urlsafe_b64encode(self._mac(instance.id, payload) + payload).rstrip(b"=").decode()
        return f"{self._base}{MEDIA_PATH}{instance.name}/{token}"

    def open(self, instance: Instance | None, token: str) -> MediaLink:
        """Check a link: the instance in its path, if it exists, and the token.

        Raises:
            Forbidden: the link was changed, or belongs to another instance. The same without the instance, so
                that callers do not learn which instances exist.
            Expired: it was valid once.
        """
        link = self.read(instance, token)
        if link is None:
            raise Forbidden(_REFUSED)
        if self._now() >= link.expires_at:
            raise Expired.of("media.link_expired", "This link has expired (media.lifetime).")
        return link

    def read(self, instance: Instance | None, token: str) -> MediaLink | None:
        """Return a link of an instance, whether or not it has expired; ``None`` if it is none."""
        raw = _decoded(token)
        mac, payload = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        # Without an instance, this takes the same time.
        is_genuine = hmac.compare_digest(mac, self._mac(instance.id if instance else "", payload))
        if not is_genuine or instance is None:
            return None
        return msgspec.msgpack.decode(payload, type=MediaLink)

    def _mac(self, instance_id: str, payload: bytes) -> bytes:
        # Ids have no NUL: no other id and payload make the same content. 128 bits are what RFC 2104, section
        # 5 leaves of SHA-256 at the least, and keep the link short.
        content = b"%b%b\0%b" % (_DOMAIN, instance_id.encode(), payload)
        return hmac.digest(self._key, content, "sha256")[:_MAC_BYTES]


def is_mimetype(text: str) -> bool:
    """Return whether a text is a mimetype that a header can carry."""
    return _MIMETYPE.fullmatch(text) is not None


def _decoded(token: str) -> bytes:
    """Return a token's bytes; ``b""`` if no link has such a token."""
    try:
        raw = decode_base64url(token)
    except ValueError:
        return b""
    # One spelling only: decoding ignores the last bits of some tokens.
    return raw if base64.urlsafe_b64encode(raw).rstrip(b"=").decode() == token else b""
