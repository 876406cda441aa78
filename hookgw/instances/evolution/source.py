"""Reads the instances of an Evolution API, over HTTP or from a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from hookgw.command.failure import Failed
from hookgw.config.folders import why_not_made
from hookgw.delivery.http.client_tls import default_ssl_context
from hookgw.kernel.masking import repr_without, with_masked_user

_TIMEOUT = 30.0
_CONNECT_TIMEOUT = 5.0
_FORM = '{"evolution": [{"instance": {"name": …, "token": …}, "webhook": {…}, "settings": {…}}]}'


class SourceInstance(msgspec.Struct, frozen=True):
    """An instance as Evolution API 2 describes it.

    Attributes:
        instance: its item of ``/instance/fetchInstances``.
        webhook: the answer of ``/webhook/find``; ``None`` if none is set.
        settings: the answer of ``/settings/find``; ``None`` if there are none.
    """

    instance: dict[str, Any]
    webhook: dict[str, Any] | None = None
    settings: dict[str, Any] | None = None

    __repr__ = repr_without("instance", "webhook", "settings")

    @property
    def name(self) -> str:
        name = self.instance.get("name")
        return name if isinstance(name, str) else ""


class _File(msgspec.Struct):
    evolution: list[SourceInstance]


def read_server(
    url: str, key: str, on_progress: Callable[[int, int], None] = lambda _done, _total: None
) -> list[SourceInstance]:
    """Read all instances of a running Evolution API, with GET requests alone.

    Args:
        key: its global key; with an instance's token only that instance is read.
        on_progress: called with how many instances are read, and with their number.

    Raises:
        Failed: it does not respond, refuses the key, or is not an Evolution API 2.
    """
    shown = with_masked_user(url)
    timeout = httpx.Timeout(_TIMEOUT, connect=_CONNECT_TIMEOUT)
    try:
        # Never through a proxy of the environment: it would see the keys.
        with httpx.Client(
            base_url=url,
            headers={"apikey": key},
            trust_env=False,
            verify=default_ssl_context() if url.startswith("https:") else False,
            timeout=timeout,
        ) as http:
            listed = _get(http, shown, "/instance/fetchInstances")
            if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
                raise Failed(
                    f"{shown} is not an Evolution API: /instance/fetchInstances returns no list of objects."
                )
            found = [SourceInstance(one) for one in listed]
            if any(not one.name for one in found):
                raise Failed(
                    f"{shown} is not an Evolution API 2: its instances have no name. "
                    f"Update Evolution API first, or import a file that you write: {_FORM}."
                )
            whole = []
            for one in found:
                whole.append(_with_parts(http, shown, one))
                on_progress(len(whole), len(found))
            return whole
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = str(error).removesuffix(".") or type(error).__name__
        raise Failed(f"Evolution API at {shown} cannot be read: {reason}.") from error


def _with_parts(http: httpx.Client, shown: str, found: SourceInstance) -> SourceInstance:
    # A name may have any character. httpx resolves dot segments, which no instance is called.
    name = quote(found.name, safe="")
    webhook = _get(http, shown, f"/webhook/find/{name}")
    settings = _get(http, shown, f"/settings/find/{name}") or found.instance.get("Setting")
    return SourceInstance(found.instance, _object_or_none(webhook), _object_or_none(settings))


def _object_or_none(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _get(http: httpx.Client, shown: str, path: str) -> Any:
    try:
        response = http.get(path)
    except (httpx.RemoteProtocolError, httpx.ReadError):
        # Node closes a connection that was idle for 5 s, perhaps at this moment. Reading again does no harm.
        response = http.get(path)
    if response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise Failed(
            f"Evolution API at {shown} refuses the key. Give its AUTHENTICATION_API_KEY with "
            "--from-key-file FILE, --from-key -, or as EVOLUTION_API_KEY."
        )
    if not response.is_success:
        raise Failed(f"{shown}{path} responds {response.status_code}, so nothing was imported.")
    try:
        return response.json()
    except ValueError as error:
        raise Failed(f"The response of {shown}{path} is not JSON. Is it an Evolution API?") from error


def read_file(file: Path) -> list[SourceInstance]:
    """Read instances from a file in the form of :func:`write_file`.

    Raises:
        Failed: it cannot be read, or has another form.
    """
    try:
        return msgspec.json.decode(file.read_bytes(), type=_File).evolution
    except OSError as error:
        raise Failed(f"{file} cannot be read: {error.strerror}.") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise Failed(f"{file} is no export: {error}. It must be {_FORM}.") from error


def write_file(file: Path, found: list[SourceInstance]) -> None:
    """Write instances to a new file that only its owner can read: it contains keys.

    Raises:
        Failed: the file exists, or cannot be written.
    """
    text = json.dumps({"evolution": msgspec.to_builtins(found)}, indent=2)
    try:
        # Not open() alone: the file must never be readable for others.
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            try:
                stream.write(f"{text}\n")
                stream.flush()
            except OSError:
                file.unlink()
                raise
    except FileExistsError as error:
        raise Failed(f"{file} exists already. Choose another name.") from error
    except OSError as error:
        raise Failed(f"{file} cannot be written: {why_not_made(file, error)}.") from error
