"""What a client sends back of what it read: masked values stand for the stored ones."""

from __future__ import annotations

import msgspec

from hookgw.models.registrations import Registration, RegistrationChange
from hookgw.models.tls_identity import NO_IDENTITY
from hookgw.parsing import unmask_headers, unmask_tls, unmask_url
from hookgw.plugins.secret_options import SecretOptions


def unmask_change(
    change: RegistrationChange, old: Registration | None, secret_options: SecretOptions
) -> RegistrationChange:
    """Return a change with the stored values in place of masks.

    Raises:
        Invalid: something is masked that is not stored.
    """
    if change.url is not msgspec.UNSET:
        change = msgspec.structs.replace(change, url=unmask_url(change.url, old.url if old else None))
    if change.headers is not msgspec.UNSET:
        headers = unmask_headers(change.headers, old.headers if old else {})
        change = msgspec.structs.replace(change, headers=headers)
    if change.plugins is not msgspec.UNSET:
        plugins = secret_options.unmasked(change.plugins, old.plugins if old else {})
        change = msgspec.structs.replace(change, plugins=plugins)
    if change.tls is not msgspec.UNSET:
        tls = unmask_tls(change.tls, old.tls if old else NO_IDENTITY)
        change = msgspec.structs.replace(change, tls=tls)
    return change
