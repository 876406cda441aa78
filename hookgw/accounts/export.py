"""What is there, as a document of ``apply``. No I/O.

Fields as in a new record are left out, and ``${NAME}`` stands for every secret. Applied where it was exported
from, with the same secrets, the document changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from hookgw.auth.keyring import CONFIGURED_KEY
from hookgw.instances.fields import OPTIONS, SETTINGS
from hookgw.kernel.fields import Field, Parts, write_time
from hookgw.kernel.json_fields import place
from hookgw.kernel.masking import MASK, user_of
from hookgw.kernel.secret_options import SecretOptions
from hookgw.plugins.connector_options import ConnectorOptions
from hookgw.records.api_keys import Key, Reach
from hookgw.records.instances import Instance, InstanceSettings
from hookgw.records.registrations import Registration
from hookgw.webhooks.fields import FIELDS

_NEW_INSTANCE = Instance(name="", id="")
_NEW_SETTINGS = InstanceSettings()
_NEW_WEBHOOK = Registration(id="", instance="", url="")
_OF_SIGNATURE = "secret"
_NO_NAME = re.compile(r"[^A-Z0-9]+")


class NeededSecret(msgspec.Struct, frozen=True, rename="camel"):
    """A secret that a document needs.

    Attributes:
        variable: what stands for it in the document, in `${…}`.
        paths: where; the same secret in several places is one.
        is_text: whether it is a text; if not, write it without quotes, so that it stays a number or so.
    """

    variable: str
    paths: list[str]
    is_text: bool


class Export:
    """Writes records as parts of a document, and notes the secrets that it needs.

    Args:
        with_signing_secrets: whether webhooks get their signing secrets, which hookgw has made for most: a
            copy elsewhere then signs as here.
    """

    def __init__(self, secret_options: SecretOptions, *, with_signing_secrets: bool = False) -> None:
        self._secret_options = secret_options
        self._with_signing_secrets = with_signing_secrets
        self._variables: set[str] = set()
        # The token of one receiver, in the webhooks of 200 instances, is one secret.
        self._by_value: dict[tuple[type, Any], NeededSecret] = {}

    @property
    def needed(self) -> list[NeededSecret]:
        return [*self._by_value.values()]

    def instance(
        self, instance: Instance, registrations: Iterable[Registration], rules: ConnectorOptions
    ) -> dict[str, Any]:
        path = place("instances", instance.name)
        masked = rules.masked(instance.options)
        options = _written(OPTIONS, instance, _NEW_INSTANCE) | {
            name: self._hidden(value, masked[name] == MASK, f"{path}.options", name)
            for name, value in instance.options.items()
        }
        settings = _written(SETTINGS, instance.settings, _NEW_SETTINGS)
        for one in SETTINGS:
            if one.is_secret and one.json in settings:
                # What responses show of it is a mask.
                value = getattr(instance.settings, one.name)
                settings[one.json] = self._secret(value, f"{path}.settings", one.json)
        found = {
            "connector": instance.integration,
            "options": options,
            "settings": settings,
            "tags": instance.tags,
            "webhooks": {one.label: self._webhook(one, f"{path}.webhooks") for one in registrations},
        }
        return {name: value for name, value in found.items() if value}

    def _webhook(self, registration: Registration, above: str) -> dict[str, Any]:
        path = place(above, registration.label)
        found = _written(FIELDS, registration, _NEW_WEBHOOK)
        user = user_of(registration.url)
        if user:
            before, _, after = registration.url.partition(f"{user}@")
            found["url"] = f"{_escaped(before)}{self._secret(user, path, 'url')}@{_escaped(after)}"
        found["headers"] = {
            name: self._secret(value, f"{path}.headers", name) for name, value in registration.headers.items()
        }
        masked = self._secret_options.masked(registration.plugins)
        found["plugins"] = {
            plugin: {
                name: self._hidden(value, masked[plugin][name] == MASK, f"{path}.plugins.{plugin}", name)
                for name, value in block.items()
            }
            for plugin, block in registration.plugins.items()
        }
        if registration.paused_at is not None:  # elsewhere, it must not start to deliver
            found["paused"] = True
        if registration.tls.client_key is not None:
            found["tls"]["clientKey"] = self._secret(registration.tls.client_key, f"{path}.tls", "clientKey")
        found.pop(_OF_SIGNATURE, None)
        if self._with_signing_secrets and registration.secrets:
            found[_OF_SIGNATURE] = self._secret(registration.secrets[0].value, path, _OF_SIGNATURE)
        return {name: value for name, value in found.items() if value not in ({}, None)}

    def _hidden(self, value: Any, is_secret: bool, above: str, name: str) -> Any:
        """Return a value with a variable for everything in it, if it is a secret."""
        if not is_secret:
            return _escaped(value)
        if isinstance(value, dict):
            return {key: self._hidden(one, True, place(above, name), key) for key, one in value.items()}
        if isinstance(value, list):
            inner = place(above, name)
            return [self._hidden(one, True, inner, str(index)) for index, one in enumerate(value)]
        return self._secret(value, above, name)

    def _secret(self, value: Any, above: str, name: str) -> Any:
        if value in (None, ""):
            return value
        path = place(above, name)
        known = self._by_value.get((type(value), value))
        if known is not None:
            known.paths.append(path)
            return f"${{{known.variable}}}"
        # "instances" says nothing, and neither do "webhooks" and the like.
        parts = path.removeprefix("instances.").replace(".webhooks.", ".").replace(".headers.", ".")
        wanted = _NO_NAME.sub("_", parts.upper()).strip("_")
        wanted = f"_{wanted}" if wanted[:1].isdigit() else wanted
        number, variable = 2, wanted
        while variable in self._variables:
            variable, number = f"{wanted}_{number}", number + 1
        self._variables.add(variable)
        self._by_value[type(value), value] = NeededSecret(variable, [path], isinstance(value, str))
        return f"${{{variable}}}"


def export_keys(
    keys: Iterable[Key], names_of: Callable[[Reach | None], list[str] | None], now: float
) -> dict[str, dict[str, Any]]:
    """Return the keys of no instance as a document has them: what they may do, and no value."""
    found = {}
    for key in keys:
        names = names_of(key.reach)
        if key.name == CONFIGURED_KEY or key.is_expired(now) or names == []:
            continue  # the configuration has it, or it opens nothing any more
        tags = dict(key.reach.tags) if key.reach is not None and names is None else None
        fields = {
            "tags": tags or None,
            "instances": names,
            "rights": None if key.rights is None else [*key.principal(None).rights.words],
            "expires": write_time(key.expires_at),
        }
        found[key.name] = {name: value for name, value in fields.items() if value is not None}
    return found


def _written(table: Iterable[Field], record: Any, new: Any) -> dict[str, Any]:
    """Return the fields of a record that are not as in a new one, as a request spells and writes them."""
    found = {}
    for one in table:
        value = getattr(record, one.attribute)
        if value == getattr(new, one.attribute):
            continue
        written = msgspec.to_builtins(one.kind.write(value))
        if isinstance(one.kind, Parts):
            written = {name: part for name, part in written.items() if part is not None}
        found[one.spellings[0]] = _escaped(written)
    return found


def _escaped(value: Any) -> Any:
    """Return a value in which ``${`` stands for itself."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, Mapping):
        return {name: _escaped(one) for name, one in value.items()}
    return [_escaped(one) for one in value] if isinstance(value, list | tuple) else value
