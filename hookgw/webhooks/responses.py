"""Responses about registrations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from hookgw.kernel.fields import presenter, response_type
from hookgw.kernel.masking import repr_without
from hookgw.kernel.schema_parts import Time
from hookgw.kernel.signing_keys import Signature, public_key_of
from hookgw.kernel.times import rfc3339
from hookgw.records import registrations as records
from hookgw.store import Missed
from hookgw.web.responses import Count
from hookgw.webhooks.fields import CREATED, LISTED, SHOWN, Showing

Whpk = Annotated[str, Meta(pattern="^whpk_", examples=["whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="])]


class Secret(Struct, frozen=True, rename="camel"):
    """What verifies deliveries, in the format of Standard Webhooks.

    Attributes:
        secret: the newest signing secret, with signatures v1.
        public_key: the newest public key, with signatures v1a. hookgw never shows the private key.
    """

    secret: (
        Annotated[str, Meta(pattern="^whsec_", examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])]
        | UnsetType
    ) = UNSET
    public_key: Whpk | UnsetType = UNSET

    __repr__ = repr_without("secret")


class PublicKey(Struct, frozen=True, rename="camel"):
    """What verifies signatures v1a, in the format of Standard Webhooks.

    Attributes:
        public_key: the newest public key.
    """

    public_key: Whpk


class MissedEvent(Struct, frozen=True):
    """An event that a registration has missed.

    Attributes:
        id: the event's id.
        time: when it happened.
    """

    id: str
    time: Time


class MissedEvents(Struct, frozen=True, kw_only=True):
    """What a backfill would send, but for what plugins filter out.

    Attributes:
        count: the number of deliveries.
        first: the event of the first one; `null` if there is none.
        last: the event of the last one; `null` if there is none.
    """

    count: Count
    first: MissedEvent | None
    last: MissedEvent | None


class Backfilled(Struct, frozen=True, kw_only=True):
    """The result of a backfill.

    Attributes:
        backfilled: the number of deliveries that it has made, so far if there is a `job`.
        job: the job that goes on with the backfill, if it takes long.
    """

    backfilled: Count
    job: str | UnsetType = UNSET


if TYPE_CHECKING:  # their fields are those of the table
    Registration = Any
    ListedRegistration = Any
    CreatedRegistration = Any
else:
    Registration = response_type("Registration", SHOWN, "A stored registration.")
    ListedRegistration = response_type("ListedRegistration", (*SHOWN, *LISTED), "A registration in a list.")
    CreatedRegistration = response_type("CreatedRegistration", (*SHOWN, *CREATED), "A new registration.")


class RegistrationPage(Struct, frozen=True):
    """A page of registrations, without their secrets.

    Attributes:
        registrations: sorted by instance and label.
        cursor: begins the next page; ``null`` on the last one.
    """

    registrations: list[ListedRegistration]
    cursor: str | None = None


present_registration: Callable[[records.Registration, Showing], Any] = presenter(Registration, SHOWN)
"""Returns what ``set`` and ``find`` do: headers, URL and options masked, without secrets."""
present_listed_registration: Callable[[records.Registration, Showing], Any] = presenter(
    ListedRegistration, (*SHOWN, *LISTED)
)
present_created_registration: Callable[[records.Registration, Showing], Any] = presenter(
    CreatedRegistration, (*SHOWN, *CREATED)
)


def present_secret(registration: records.Registration) -> Secret:
    """Return what verifies deliveries: the newest secret, or the public part of the newest ed25519 key."""
    # Only the newest: the others sign for receivers that still hold them.
    newest = registration.secrets[0]
    if newest.signature is Signature.V1A:
        return Secret(public_key=public_key_of(newest.value))
    return Secret(secret=newest.value)


def present_missed_event(event: Missed | None) -> MissedEvent | None:
    return None if event is None else MissedEvent(event.id, rfc3339(event.time))
