"""Responses of many calls, and how times are shown."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Count = Annotated[int, Meta(ge=0)]


class ErrorId(Struct, frozen=True):
    """What a sentence of an error says, for programs and translations.

    Attributes:
        id: words that never change, such as `field.unknown`; the reference of errors lists them. A plugin's
            sentence without an id has `text`.
        values: of the placeholders in the sentence, by name. If `at` is among them, it stands before the
            sentence: the place of a part of the request.
    """

    id: str
    values: dict[str, Any]


class Messages(Struct, frozen=True):
    """The reasons for an error.

    Attributes:
        message: sentences that say what is wrong, where, and what would be right.
        errors: an id with values for each entry of `message`, in its order.
        code: the messaging network's own code, such as `M_FORBIDDEN`, if it refused with one.
    """

    message: Annotated[list[str], Meta(min_length=1)]
    errors: Annotated[list[ErrorId], Meta(min_length=1)]
    code: str | UnsetType = UNSET


class Refusal(Struct, frozen=True):
    """The reasons for an error, which may be the messaging network's.

    Attributes:
        message: sentences. If the network refused because nobody there has a number,
            `{"jid", "exists": false, "number"}` comes first.
        errors: an id with values for each entry of `message`, in its order.
        code: the network's own code, such as `M_FORBIDDEN`, if it refused with one.
    """

    # Not a union, which some generators of clients cannot read; without items, others leave the type out.
    message: Annotated[list[Any], Meta(min_length=1, extra_json_schema={"items": {}})]
    errors: Annotated[list[ErrorId], Meta(min_length=1)]
    code: str | UnsetType = UNSET


class ApiError(Struct, frozen=True):
    """Any error.

    Attributes:
        status: the status of the response.
        error: the phrase of the status.
        response: the reasons.
    """

    status: Annotated[int, Meta(ge=400, le=599)]
    error: str
    response: Messages


class NetworkError(Struct, frozen=True):
    """An error of a call that a messaging network carries out.

    Attributes:
        status: the status of the response.
        error: the phrase of the status.
        response: the reasons.
    """

    status: Annotated[int, Meta(ge=400, le=599)]
    error: str
    response: Refusal


class Backlog(Struct, frozen=True):
    """The pending deliveries of an instance's events, to all registrations.

    Attributes:
        deliveries: their number.
        bytes: of their payloads.
    """

    deliveries: Count
    bytes: Count


class DoneMessage(Struct, frozen=True):
    """The result of a call that deletes or ends something.

    Attributes:
        message: a sentence.
    """

    message: str


class Done(Struct, frozen=True):
    """The response of a call that deletes or ends something.

    Attributes:
        status: always `SUCCESS`.
        error: always `false`.
        response: the result.
    """

    status: Literal["SUCCESS"]
    error: bool
    response: DoneMessage


class Started(Struct, frozen=True):
    """The response of a call that deletes something and is not done yet.

    Attributes:
        status: always `PENDING`.
        error: always `false`.
        response: the result.
        job: the id of the job that makes the pending deliveries dead letters.
    """

    status: Literal["PENDING"]
    error: bool
    response: DoneMessage
    job: str


class About(Struct, frozen=True):
    """What answers at this address.

    Attributes:
        status: 200, as clients of Evolution API expect it here.
        message: a sentence.
        name: `hookgw`.
        version: of hookgw; with `server.compatibility: evolution`, the version of Evolution API that it
            behaves like.
        documentation: the manual of the HTTP API; a path, unless `server.public_url` is set.
        openapi: the OpenAPI document.
        health: answers 200 if events are accepted and delivered.
    """

    status: Literal[200]
    message: str
    name: Literal["hookgw"]
    version: str
    documentation: str
    openapi: str
    health: str


class ValidKey(Struct, frozen=True):
    """The key of the request is a global key.

    Attributes:
        status: always 200.
        message: a sentence.
    """

    status: Literal[200]
    message: str


class Health(Struct, frozen=True):
    """The health of the process.

    Attributes:
        status: `ok` if the process is alive, `ready` if the store accepts writes and the lanes run.
        node: the name of the node that is ready; only in a fleet.
        shards: how many of the 256 shards each node holds, by its name; only in a fleet.
    """

    status: Literal["ok", "ready"]
    node: str | UnsetType = UNSET
    shards: dict[str, int] | UnsetType = UNSET
