"""Plans the import of each instance of an Evolution API. No I/O."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from hookgw.instances.evolution.source import SourceInstance
from hookgw.instances.fields import MAX_SETTING, SETTINGS
from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_fields import show_name
from hookgw.kernel.masking import repr_without, with_masked_user
from hookgw.kernel.rules import check_custom_headers
from hookgw.kernel.target_url import MAX_URL, parse_target
from hookgw.records.api_keys import WEAK
from hookgw.records.events import fold_kind
from hookgw.records.instances import FOREIGN, INSTANCE_NAME, InstanceSettings

ENVELOPE = "evolution_envelope"
"""The plugin that delivers as Evolution API does."""
_JWT_KEY = "jwt_key"
_PROOF = "x-hookgw-proof"
"""The header in a webhook that hookgw's connector evolution has set."""
LEAST_KEY, _MOST_KEY = 8, 256
_TIMEOUT = "60s"
"""As Evolution API's container waits for a webhook."""
_DEFAULTS: dict[str, Any] = msgspec.to_builtins(InstanceSettings())
"""All settings of an account, as the HTTP API names them, with their defaults."""
_SECRET_SETTINGS = {one.json for one in SETTINGS if one.is_secret}
_NO_SETTINGS = frozenset({"id", "createdAt", "updatedAt", "instanceId"})
_OTHER_PARTS = ("Chatwoot", "Proxy", "Rabbitmq", "Nats", "Sqs", "Kafka", "Websocket", "Pusher", "Typebot")


class Action(StrEnum):
    CREATE = "create"
    CHANGE = "change"
    NOTHING = "unchanged"
    LEAVE_OUT = "leave out"


class Existing(msgspec.Struct, frozen=True, kw_only=True):
    """An instance of hookgw with the name of an import.

    Attributes:
        webhook: its registration without a label; ``None`` if none is set.
        has_token: whether the token in Evolution API is one of its keys; ``None`` if that was not tried.
    """

    webhook: dict[str, Any] | None
    settings: dict[str, Any]
    has_token: bool | None = None


class Planned(msgspec.Struct, kw_only=True):
    """The plan for one instance.

    Attributes:
        source: its name in Evolution API.
        name: its name in hookgw.
        token: the key to keep; ``None`` if hookgw is to make one.
        integration: as in Evolution API; empty for none.
        options: of the connector.
        settings: to set; ``None`` for no change.
        webhook: to set, as the body of ``/webhook/set``; ``None`` for no change.
        conflicts: differences from the instance in hookgw, which stays unless it is to be replaced.
        notes: the result for each part.
    """

    source: str
    name: str
    action: Action = Action.NOTHING
    token: str | None = None
    integration: str = ""
    options: dict[str, Any] = {}
    settings: dict[str, Any] | None = None
    webhook: dict[str, Any] | None = None
    conflicts: list[str] = []
    notes: list[str] = []

    __repr__ = repr_without("token", "options", "settings", "webhook")


def plan_import(
    found: Sequence[SourceInstance],
    existing: Mapping[str, Existing],
    kinds: Collection[str],
    *,
    names: Mapping[str, str],
    staying: Collection[str] = (),
    envelope: bool = True,
    replace: bool = False,
    global_key: str | None = None,
) -> list[Planned]:
    """Return the plan for each instance, in their order.

    Args:
        existing: the instances of hookgw, by name.
        kinds: the event kinds that hookgw knows, by their names in capitals.
        names: other names in hookgw, by the name in Evolution API.
        staying: the integrations whose accounts stay there, because their connector is evolution.
        envelope: whether registrations get Evolution API's form of the body.
        replace: whether to replace hookgw's settings.
        global_key: Evolution API's, which must not become an instance's key.
    """
    planned = []
    taken: set[str] = set()
    tokens: set[str] = set() if global_key is None else {global_key}
    for one in found:
        name = names.get(one.name, one.name)
        made = Planned(source=one.name, name=name, conflicts=[], notes=[])
        planned.append(made)
        if not INSTANCE_NAME.fullmatch(name):
            made.action = Action.LEAVE_OUT
            made.notes.append(
                "this name is not valid in hookgw: use 1 to 128 letters (A-Z, a-z), digits, '.', '_' or '-'. "
                f"Import it under another one: --rename '{one.name}={_similar(name)}'"
            )
            continue
        if name in taken:
            made.action = Action.LEAVE_OUT
            made.notes.append(f"Another instance is imported as {name}. Give this one another name: --rename")
            continue
        taken.add(name)
        settings = _settings(one.settings or {}, made.notes)
        webhook = _webhook(one.webhook, kinds, envelope=envelope, notes=made.notes)
        # Of an instance that hookgw has, the keys stay: there is nothing to note, or a conflict.
        made.token = _token(one.instance.get("token"), tokens, [] if name in existing else made.notes)
        keeps_token = made.token is not None and (name not in existing or existing[name].has_token is True)
        if webhook is not None and envelope and keeps_token:
            # Workflows answer with the apikey and the server_url of the body.
            webhook["plugins"] = {ENVELOPE: {"apikey": made.token}}
            if name not in existing:
                made.notes.append("webhook: bodies have the token as apikey, as those of Evolution API.")
        if name in existing:
            _plan_change(made, existing[name], settings, webhook, replace=replace)
        else:
            made.action = Action.CREATE
            made.settings, made.webhook = settings, webhook
            integration = one.instance.get("integration")
            made.integration = integration if integration in FOREIGN else ""
            if made.integration in staying and name != one.name:
                _name_remote(made, one.instance.get("token"))
        _note_the_rest(one.instance, made)
    return planned


def _plan_change(
    made: Planned,
    existing: Existing,
    settings: dict[str, Any],
    webhook: dict[str, Any] | None,
    *,
    replace: bool,
) -> None:
    if made.token is not None and existing.has_token is not True:
        state = "is not one of its keys" if existing.has_token is False else "was not tried"
        made.conflicts.append(
            f"key: hookgw has an instance of this name, and the token {state}. Clients need a key of hookgw: "
            f"`hookgw key create NAME --instance {made.name}`"
        )
    elif made.token is not None:
        made.notes.append("key: its token is a key of the instance.")
    made.token = None
    differing = [
        f"{name} ({_shown_setting(name, existing.settings.get(name))} in hookgw, "
        f"{_shown_setting(name, value)} in Evolution API)"
        for name, value in settings.items()
        if _shown_setting(name, value) != _shown_setting(name, existing.settings.get(name))
    ]
    if differing and replace:
        made.settings = settings
        made.notes.append(f"settings: {', '.join(differing)}: replaced.")
    elif differing:
        made.conflicts.append(f"settings: {', '.join(differing)}")
    if webhook is not None:
        differing = [] if existing.webhook is None else _differences(existing.webhook, webhook)
        if existing.webhook is None or (differing and replace):
            made.webhook = webhook
        if differing and replace:
            made.notes.append(f"webhook: {'; '.join(differing)}: replaced.")
        elif differing:
            made.conflicts.append(f"webhook: {'; '.join(differing)}")
    has_change = made.settings is not None or made.webhook is not None
    made.action = Action.CHANGE if has_change else Action.NOTHING


def _differences(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return the fields in which a registration of hookgw differs; headers' values cannot be compared."""
    found = []
    url = with_masked_user(wanted["url"])
    if stored["url"] != url:
        found.append(f"its URL is {stored['url']} in hookgw, {url} in Evolution API")
    if stored["enabled"] != wanted["enabled"]:
        found.append(f"it is {'enabled' if stored['enabled'] else 'disabled'} in hookgw")
    if wanted["enabled"] and set(stored["events"]) != set(wanted["events"]):
        found.append("its events differ")
    for name, field in (("byEvents", "webhookByEvents"), ("base64", "webhookBase64")):
        if stored[field] != wanted[name]:
            found.append(f"{name} is {str(stored[field]).lower()} in hookgw")
    if {name.lower() for name in stored["headers"]} != {name.lower() for name in wanted["headers"]}:
        found.append("it has other headers")
    if ENVELOPE in wanted.get("plugins", {}) and ENVELOPE not in stored["plugins"]:
        found.append(f"it has no {ENVELOPE} in hookgw")
    return found


def _settings(found: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    settings = {}
    for name, default in _DEFAULTS.items():
        value = found.get(name)
        if value is not None and type(value) is not type(default):
            notes.append(f"settings: {name} is left out: {type(default).__name__} is expected.")
            value = None
        if isinstance(value, str) and len(value) > MAX_SETTING:
            notes.append(f"settings: {name} is left out: it has more than {MAX_SETTING:,} characters.")
            value = None
        settings[name] = default if value is None else value
    kept = [f"{name} {_shown_setting(name, value)}" for name, value in settings.items()]
    notes.append(f"settings: {', '.join(kept)}. A connector applies them.")
    unknown = sorted(found.keys() - _DEFAULTS.keys() - _NO_SETTINGS)
    if unknown:
        notes.append(f"settings: {', '.join(unknown)} left out: hookgw has no such setting.")
    return settings


def _shown_setting(name: str, value: Any) -> str:
    if name in _SECRET_SETTINGS:
        return "set" if value else "not set"
    return repr(value) if isinstance(value, str) else str(value).lower()


def _webhook(
    found: Mapping[str, Any] | None, kinds: Collection[str], *, envelope: bool, notes: list[str]
) -> dict[str, Any] | None:
    """Return the body of ``/webhook/set``, with notes about what changes; ``None`` for no webhook."""
    url = (found or {}).get("url")
    if found is None or not isinstance(url, str) or not url:
        notes.append("webhook: none is set.")
        return None
    if len(url) > MAX_URL:
        notes.append(f"webhook: its URL has more than {MAX_URL:,} characters; left out.")
        return None
    headers = found.get("headers")
    if any(name.lower() == _PROOF for name in (headers if isinstance(headers, dict) else ())):
        # As a registration, hookgw's own URL would send every event in a circle.
        notes.append("webhook: it leads to a hookgw already, whose connector has set it; left out.")
        return None
    enabled = found.get("enabled") is True
    if not enabled:
        notes.append("webhook: it is disabled in Evolution API, so it is imported as disabled.")
    given = found.get("events")
    names = [fold_kind(name) for name in given if isinstance(name, str)] if isinstance(given, list) else []
    names = ["GROUPS_UPDATE" if name == "GROUP_UPDATE" else name for name in names]
    events = [name for name in names if name in kinds]
    unknown = sorted(set(names) - set(events))
    if unknown:
        notes.append(
            f"webhook: {', '.join(unknown)} left out: hookgw has no such kind. The plugin gateway_kinds adds "
            "most kinds of Evolution API."
        )
    if enabled and not events:
        # In hookgw, no events means every kind.
        enabled = False
        notes.append(
            "webhook: Evolution API delivers nothing, because it has no events; imported as disabled."
        )
    if enabled:
        try:
            parse_target(url)
        except ValueError as error:
            enabled = False
            notes.append(f"webhook: imported as disabled, because hookgw cannot call its URL: {error}")
    headers = _headers(found.get("headers"), envelope=envelope, notes=notes)
    notes.append(
        f"webhook: {with_masked_user(url)}, {len(events)} kinds, "
        f"{len(headers)} headers{'' if enabled else ', disabled'}."
    )
    return {
        "url": url,
        "enabled": enabled,
        "events": events,
        "byEvents": found.get("webhookByEvents") is True,
        "base64": found.get("webhookBase64") is True,
        "headers": headers,
        "timeout": _TIMEOUT,
        **({"plugins": {ENVELOPE: {}}} if envelope else {}),
    }


def _headers(found: Any, *, envelope: bool, notes: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    # Of names that differ in capitals only, axios sends the last one, and nothing for null and false.
    sent = {name.lower(): (name, value) for name, value in (found if isinstance(found, dict) else {}).items()}
    for name, value in sent.values():
        if value is None or value is False:
            continue
        if name.lower() == _JWT_KEY and not envelope:
            notes.append(f"webhook: {_JWT_KEY} left out: only the plugin {ENVELOPE} signs with it.")
            continue
        text = value if isinstance(value, str) else str(value).lower()
        try:
            check_custom_headers({**headers, name: text}, "headers")
        except Invalid as error:
            notes.append(f"webhook: header {show_name(name)} left out: {' '.join(error.messages)}")
            continue
        headers[name] = text
        if name == _JWT_KEY:
            notes.append(
                f"webhook: {_JWT_KEY} is kept, and never sent: the plugin {ENVELOPE} signs a new token "
                "with it for each attempt, as Evolution API does."
            )
    return headers


def _token(token: Any, taken: set[str], notes: list[str]) -> str | None:
    """Return a token that can be an instance key of hookgw, or note why it cannot."""
    if not isinstance(token, str) or not token or set(token) == {"*"}:
        reason = "Evolution API does not show its token"
    elif not (LEAST_KEY <= len(token) <= _MOST_KEY and token.isascii() and token.isprintable()):
        reason = f"its token does not have {LEAST_KEY} to {_MOST_KEY} printable ASCII characters"
    elif token in taken:
        reason = "its token is also the key of another instance, or the global key"
    else:
        taken.add(token)
        weak = " It is short enough to be guessed: replace it soon." if len(token) < WEAK else ""
        notes.append(f"key: its token is kept.{weak}")
        return token
    notes.append(f"key: {reason}. hookgw makes a new key, which --apply shows once.")
    return None


def _name_remote(made: Planned, token: Any) -> None:
    """Tell the connector which instance of Evolution API is meant: the names differ."""
    if isinstance(token, str) and token.strip("*"):
        # The plugin's own key is for instances of the same name alone.
        made.options = {"remote": made.source, "api_key": token}
        made.notes.append(f"options: remote={made.source}, with its token as api_key.")
    else:
        made.integration = ""
        made.notes.append(
            "integration: left out. The connector evolution would need the token of this instance, which "
            "Evolution API does not show, because the names differ. Create the instance yourself, with the "
            f"options remote={made.source} and api_key."
        )


def _note_the_rest(record: Mapping[str, Any], made: Planned) -> None:
    parts = [name for name in _OTHER_PARTS if _is_used(record.get(name))]
    if parts:
        made.notes.append(f"{', '.join(parts)} left out: hookgw has no such part.")
    if made.action is Action.CREATE and made.integration:
        made.notes.append(f"integration: {made.integration}, with the connector of instances.integrations.")


def _is_used(part: Any) -> bool:
    if isinstance(part, list):
        return bool(part)
    return isinstance(part, dict) and part.get("enabled") is not False


def _similar(name: str) -> str:
    """Return a name that hookgw accepts and people recognise."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9._-]+", "-", plain).strip("-.")[:128] or "instance"
