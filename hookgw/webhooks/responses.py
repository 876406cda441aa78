"""Responses about registrations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from hookgw.kernel.fields import presenter, response_type
from hookgw.kernel.masking import repr_without
from hookgw.kernel.signing_keys import Signature, public_key_of
from hookgw.records import registrations as records
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
