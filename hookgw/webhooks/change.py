"""What a request changes of a registration: read from its body, and applied to the stored one. No I/O.

Clients of several gateways send the fields of a registration at the top level or in a ``webhook`` object, in
camel case or snake case, or in any mixture of these. ``docs/http.md`` lists every spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from hookgw.kernel.errors import Invalid
from hookgw.kernel.fields import REQUIRED, read_fields, request_schema
from hookgw.kernel.json_fields import Fields, as_object
from hookgw.kernel.masking import repr_without
from hookgw.kernel.schema_parts import flag
from hookgw.kernel.secret_options import SecretOptions
from hookgw.kernel.sentences import Sentence
from hookgw.kernel.signing_keys import PRIVATE, SYMMETRIC, Secret, Signature
from hookgw.records.events import Catalog, Event
from hookgw.records.registrations import (
    DEFAULT_GRACE,
    Registration,
    in_grace,
    new_registration_id,
    new_secret,
)
from hookgw.records.tls_identity import expired_part
from hookgw.webhooks.fields import FIELDS, GRACE, READ_ONLY, AskedFields

_STORED = {*Registration.__struct_fields__} - {"secrets"}


class _Change(Struct, frozen=True, kw_only=True):
    """A validated ``set``, or a change of some fields. A field that is ``UNSET`` keeps its stored value.

    Attributes:
        is_set: whether it is a ``set``. That is a fresh start, also for a registration that hookgw disabled,
            and has ``url``, ``enabled`` and ``events``.
        paused: begins a pause, or ends one; of a document alone, others call ``pause`` and ``resume``.
    """

    is_set: bool = True
    paused: bool | UnsetType = UNSET

    __repr__ = repr_without(*(field.name for field in FIELDS if field.is_secret))

    if TYPE_CHECKING:  # the fields are those of the table

        def __init__(
            self, *, is_set: bool = True, paused: bool | UnsetType = UNSET, **given: Any
        ) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

    def apply(self, old: Registration | None, *, instance: str, label: str, now: float) -> Registration:
        """Return the resulting registration.

        Args:
            old: the stored registration; ``None`` to create one, which takes a ``set``.
            instance, label: the name of a new registration.

        Raises:
            Invalid: a certificate has expired.
        """
        if self.tls is not UNSET and (sentence := expired_part(self.tls, now)) is not None:
            raise Invalid(sentence)
        given = {
            field.attribute: value
            for field in FIELDS
            if field.attribute in _STORED and (value := getattr(self, field.name)) is not UNSET
        }
        secrets = self._secrets(old, now)
        if secrets:
            given["secrets"] = secrets
        base = old or Registration(
            id=new_registration_id(), instance=instance, label=label, url="", created_at=now
        )
        new = msgspec.structs.replace(base, updated_at=now, **given)
        if self.is_set or (new.enabled and not base.enabled):
            new = msgspec.structs.replace(new, disabled_reason=None, failing_since=None, fresh_since=now)
        elif not new.has_target_of(base):
            # The failures were the former receiver's.
            new = msgspec.structs.replace(new, failing_since=None)
        if self.paused is not UNSET and self.paused is not (new.paused_at is not None):
            new = new.paused(now) if self.paused else new.resumed(now)
        # Deliveries in the former lanes are found by their generation, and moved.
        is_redivided = old is not None and new.partitioning != old.partitioning
        return msgspec.structs.replace(new, generation=new.generation + 1) if is_redivided else new

    def _secrets(self, old: Registration | None, now: float) -> tuple[Secret, ...]:
        if self.secret is not UNSET:
            # No grace: a caller that brings a secret has told the receiver, and may be replacing a leak.
            return (self.secret,)
        wanted = Signature.V1 if self.signature is UNSET else self.signature
        if old is None:
            return (new_secret(wanted),)
        if self.signature is UNSET or wanted is old.signature:
            return ()
        # Another scheme is a rotation: receivers that verify the old one have a day to change.
        return (new_secret(wanted), *in_grace(old.secrets_in_force(now), now, DEFAULT_GRACE))


if TYPE_CHECKING:
    RegistrationChange = _Change
else:
    # Each field is as after a `set` without it, unless it is given.
    RegistrationChange = msgspec.defstruct(
        "RegistrationChange",
        [(one.name, Any) if one.when_set is REQUIRED else (one.name, Any, one.when_set) for one in FIELDS],
        bases=(_Change,),
        module=__name__,
        frozen=True,
        kw_only=True,
    )


def enabling(is_enabled: bool) -> RegistrationChange:
    """Return the change that enables a registration, or disables it, and nothing else."""
    return RegistrationChange(is_set=False, url=UNSET, enabled=is_enabled, events=UNSET)


REGISTRATION = request_schema(
    FIELDS, "A missing field keeps its stored value; url, enabled and events are always replaced."
)
UPDATE = request_schema(
    FIELDS, "The fields to change. A missing field keeps its stored value.", is_patch=True
)
UPDATE["properties"]["backfill"] = flag(
    "With `enabled`, of a registration that is disabled: first send what it has missed since it was disabled."
)


def parse_registration(
    body: Any,
    catalog: Catalog,
    shown: Mapping[str, object] | None = None,
    *,
    stored_enabled: bool | None = None,
) -> tuple[RegistrationChange, list[str]]:
    """Read the body of a ``set``, or of a change of some fields, in which a missing field keeps its value.

    Return the change, and a warning for each ignored field. Raise ``Invalid`` with every mistake, each with
    its path as the client wrote it.

    Args:
        shown: ``instance``, ``label``, ``paused`` and ``state`` of the registration before the ``set``, or as
            they are if it is new. Other values get a warning. ``None`` for no such warnings.
        stored_enabled: as for :func:`read_change`.
    """
    fields = registration_fields(body)
    change = read_change(fields, catalog, stored_enabled=stored_enabled)
    fields.ignore("webhook")
    ignore_read_only(fields, shown)
    return change, fields.finish()


def read_change(
    fields: Fields, catalog: Catalog, *, stored_enabled: bool | None = None
) -> RegistrationChange:
    """Read the fields of a registration. Mistakes stay in ``fields`` until they are finished.

    ``stored_enabled`` is ``None`` for a ``set``, which needs a URL. For a change of some fields, it says
    whether the registration is enabled now.
    """
    given = fields.find("enabled")
    enabled = (given[1] if given else stored_enabled) is not False
    values = read_fields(FIELDS, fields, AskedFields(catalog, enabled), is_set=stored_enabled is None)
    given, secret, signature = fields.find("signature"), values["secret"], values["signature"]
    if given and secret is not UNSET and signature not in (UNSET, secret.signature):
        prefix = PRIVATE if signature is Signature.V1A else SYMMETRIC
        fields.problems.append(
            Sentence(
                "webhook.secret_of_other_scheme",
                "{given} is {signature}, but the secret is not: send one that starts with {prefix}.",
                given=given[0],
                signature=signature,
                prefix=prefix,
            )
        )
    return RegistrationChange(is_set=stored_enabled is None, **values)


def ignore_read_only(fields: Fields, shown: Mapping[str, object] | None = None) -> None:
    """Ignore the fields that only responses have, with a warning for a value other than in ``shown``."""
    fields.ignore(*READ_ONLY)
    for name, value in (shown or {}).items():
        found = fields.find(name)
        if found is not None and found[1] != value:
            fields.warn([f"{found[0]} was ignored: {READ_ONLY[name].format_map(shown or {})}"])


def registration_fields(body: Any) -> Fields:
    """Return the fields of a ``set``, which may be in the object ``webhook`` or beside it."""
    body = as_object(body, "The body")
    nested = body.get("webhook")
    if nested is None:
        return Fields(("", body))
    if isinstance(nested, str):
        return Fields(("", {**body, "url": nested}))
    return Fields(("webhook", as_object(nested, "webhook")), ("", body))


def unmask_change(
    change: RegistrationChange, old: Registration | None, secret_options: SecretOptions
) -> RegistrationChange:
    """Return a change with the stored values for masks. Raise ``Invalid`` if one is not stored."""
    for field in FIELDS:
        if field.unmask is not None and (given := getattr(change, field.name)) is not UNSET:
            stored = None if old is None else getattr(old, field.attribute)
            known = field.unmask(given, stored, secret_options)
            change = msgspec.structs.replace(change, **{field.name: known})
    return change


def keep_every_kind(
    change: RegistrationChange, old: Registration | None, catalog: Catalog
) -> RegistrationChange:
    """Return a change without the kinds if they are what a response shows for "every kind".

    Such a registration also gets kinds that are added later. A client that sends back what it read would end
    that.
    """
    if old is None or old.events or change.events is UNSET:
        return change
    shown = {kind.name for kind in catalog.of_instances()}
    return msgspec.structs.replace(change, events=()) if shown <= {*change.events} else change


def body_of(change: RegistrationChange) -> dict[str, Any]:
    """Return the body of a ``set`` that makes a change. What is JSON already stays as it is."""
    given = {field.spellings[0]: (field, getattr(change, field.name)) for field in FIELDS}
    return {name: field.kind.write(value) for name, (field, value) in given.items() if value is not UNSET}


ROTATE = request_schema((GRACE,), "The grace period of the old secret.", is_closed=True)


def parse_test(body: Any, catalog: Catalog) -> tuple[str | None, bytes | None]:
    """Read the body of a test, which may be missing. Return the kind and the payload, as far as given."""
    fields = Fields.of_body(body)
    kind = fields.pick(catalog.stored_name, "event", "kind")
    data = fields.read(lambda value, _: Event.encode(value), None, "data")
    fields.refuse_unknown("a test")
    fields.finish()
    return kind, data


def parse_grace(body: Any) -> float:
    """Read the body of a ``rotateSecret``, which may be missing. Return the seconds of grace."""
    fields = Fields.of_body(body)
    grace: float = read_fields((GRACE,), fields)["grace"]
    # With a misspelt field, a secret that leaked would stay valid for the default time.
    fields.refuse_unknown("a rotation")
    fields.finish()
    return grace
