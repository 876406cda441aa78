"""Converts records to the types of :mod:`hookgw.web.responses`, which are encoded as JSON."""

from __future__ import annotations

import mimetypes
from typing import Any, cast

import msgspec
from msgspec import UNSET

from hookgw.concurrency.clock import rfc3339
from hookgw.core.stored_messages import MessagePage, StoredFile
from hookgw.instances.connectors.media_download import MediaHead
from hookgw.instances.connectors.states import Account, Closing
from hookgw.kernel.masking import MASK, with_masked_user
from hookgw.kernel.secret_options import SecretOptions
from hookgw.messages.chats import Chat, Contact
from hookgw.records.api_keys import Key
from hookgw.records.audit import ActorKind, AuditEntry
from hookgw.records.connectors import ConnectionState, QRCode
from hookgw.records.deliveries import Attempt, DeliveryState, LaneStatistics
from hookgw.records.events import Catalog, EventKind
from hookgw.records.instances import Instance, InstanceSettings
from hookgw.records.jobs import Job, JobKind
from hookgw.records.messages import MessageQuery
from hookgw.records.registrations import Registration
from hookgw.records.stuck_lanes import advice_for
from hookgw.store import DeliveryReport, DeliverySummary
from hookgw.web import responses
from hookgw.webhooks.fields import Showing
from hookgw.webhooks.responses import present_registration


def present_done(message: str) -> responses.Done:
    """Return the response of a call that deletes or ends something."""
    return responses.Done("SUCCESS", False, responses.DoneMessage(message))


def present_started(job: Job, message: str) -> responses.Started:
    """Return the response of a call that deletes something, while a job is still at it."""
    return responses.Started("PENDING", False, responses.DoneMessage(message), job.id)


def present_job(job: Job) -> responses.Job:
    return responses.Job(
        id=job.id,
        kind=job.kind,
        instance=job.instance,
        state=job.state,
        done=job.done,
        total=job.total,
        events=job.events if job.kind is JobKind.ERASE else UNSET,
        started=rfc3339(job.started),
        finished=present_time(job.finished),
        error=job.error,
        warning=UNSET if job.warning is None else job.warning,
    )


def present_time(seconds: float | None) -> str | None:
    """Return a time in RFC 3339; ``None`` for no time, which records also write as 0."""
    return rfc3339(seconds) if seconds else None


def present_instance(
    instance: Instance, state: ConnectionState, options: dict[str, Any], *, is_new: bool = False
) -> responses.Instance:
    """Return an instance.

    Args:
        instance: which one.
        state: of its connection.
        options: its masked options.
        is_new: for the response to its creation. A client of Evolution API calls an open connection
            "connected" there, and fails with any other word.
    """
    return responses.Instance(
        instance_name=instance.name,
        instance_id=instance.id,
        integration=instance.requested_integration or instance.integration or None,
        connector=instance.integration or None,
        status="connected" if is_new and state is ConnectionState.OPEN else state.value,
        created_at=rfc3339(instance.created_at),
        options=options if instance.integration else UNSET,
    )


def present_listed_instance(
    instance: Instance,
    state: ConnectionState,
    options: dict[str, Any],
    close_reason: str | None,
    backlog: tuple[int, int],
    ingest_url: str | None,
    account: Account,
    closing: Closing | None,
    callers_key: str | None,
) -> responses.ListedInstance:
    """Return an instance as in a list, with its masked options, its pending deliveries and their bytes.

    ``callers_key`` is the key of a caller who has only this instance; ``None`` for others.
    """
    number, business_id = shown_number(options), options.get("businessId")
    older = responses.OlderInstance(
        **msgspec.structs.asdict(present_instance(instance, state, options)),
        name=instance.name,
        owner_jid=account.jid,
        owner=account.jid,
        profile_name=account.profile_name,
        profile_pic_url=account.profile_picture_url,
    )
    return responses.ListedInstance(
        id=instance.id,
        name=instance.name,
        connection_status=state,
        owner_jid=account.jid,
        profile_name=account.profile_name,
        profile_pic_url=account.profile_picture_url,
        # The enum of a client's type, which fails with anything else.
        integration=cast("Any", instance.requested_integration or None),
        connector=instance.integration or None,
        number=number,
        business_id=business_id if isinstance(business_id, str) and business_id != MASK else None,
        token=callers_key or MASK,
        client_name="hookgw",
        disconnection_reason_code=closing.reason if closing else None,
        disconnection_object=None,
        disconnection_at=rfc3339(closing.at) if closing else None,
        created_at=rfc3339(instance.created_at),
        updated_at=rfc3339(instance.updated_at or instance.created_at),
        setting=present_settings(instance.settings),
        count=responses.Counts(),
        disconnection_reason=close_reason or UNSET,
        backlog=responses.Backlog(*backlog),
        instance=older,
        ingest_url=ingest_url or UNSET,
    )


def shown_number(options: dict[str, Any]) -> str | None:
    """Return the option ``number``, if it is a text and no secret."""
    number = options.get("number")
    return number if isinstance(number, str) and number != MASK else None


def present_settings(settings: InstanceSettings) -> responses.Settings:
    token = MASK if settings.wavoip_token else ""
    return responses.Settings(**{**msgspec.structs.asdict(settings), "wavoip_token": token})


def present_connection(
    instance: str,
    state: ConnectionState,
    close_reason: str | None,
    code: QRCode | None = None,
    ingest_url: str | None = None,
    count: int = 0,
) -> responses.Connection:
    found = responses.Connection(
        instance=responses.NamedState(instance, state, close_reason or UNSET), ingest_url=ingest_url or UNSET
    )
    if code is None:
        return found
    shown = msgspec.structs.asdict(present_code(code, count))
    return msgspec.structs.replace(found, **shown)


def present_code(code: QRCode, count: int) -> responses.Code:
    """Return a code to scan, and how many were shown so far."""
    return responses.Code(pairing_code=code.pairing_code, code=code.code, base64=code.base64, count=count)


def present_key(key: Key, instance: str | None, *, current: Key, now: float) -> responses.Key:
    """Return a key without its secret.

    Args:
        key: the stored key.
        instance: its instance; ``None`` for a global key.
        current: the caller's key.
        now: the time of the steady clock.
    """
    return responses.Key(
        name=key.name,
        instance=instance,
        state="expired" if key.is_expired(now) else "active",
        created_at=present_time(key.created_at),
        expires_at=present_time(key.expires_at),
        origin=key.origin or None,  # to find the descendants of a leaked key
        current=key.hash == current.hash,
    )


def present_attempt(attempt: Attempt) -> responses.Attempt:
    return responses.Attempt(
        number=attempt.number,
        at=rfc3339(attempt.at),
        duration=round(attempt.duration * 1000, 1),  # milliseconds
        outcome=attempt.outcome,
        status=attempt.status,
        error=attempt.error,
        answer=attempt.answer,
        url=attempt.url,
    )


def present_kind(kind: EventKind) -> responses.Kind:
    return responses.Kind(
        name=kind.name,
        dotted=kind.dotted_name,
        aliases=list(kind.aliases),
        meaning=kind.meaning,
        schema=kind.schema,
        example=kind.example,
        plugin=kind.plugin or None,
        operational=kind.operational,
    )


def present_delivery(delivery: DeliverySummary, registration: Registration | None) -> responses.Delivery:
    """Return a delivery as in a list; ``registration`` is ``None`` if it was deleted."""
    pending = delivery.state is DeliveryState.PENDING
    return responses.Delivery(
        id=delivery.id,
        state=delivery.state,
        reason=delivery.reason,
        kind=delivery.kind,
        event_id=delivery.event_id,
        registration_id=delivery.registration,
        label=registration.label if registration else None,
        url=with_masked_user(registration.url) if registration else None,
        accepted_at=rfc3339(delivery.accepted_at),
        finished_at=present_time(delivery.finished_at),
        next_attempt_at=present_time(delivery.next_at) if pending else None,  # stale once it is settled
        attempts=delivery.attempts,
        last_attempt=present_attempt(delivery.last_attempt) if delivery.last_attempt else None,
    )


def present_report(
    report: DeliveryReport,
    attempts: list[responses.Attempt],
    registration: Registration | None,
    instance_id: str,
    catalog: Catalog,
    secret_options: SecretOptions,
) -> responses.Report:
    """Return a delivery with its event, its registration, and those of its attempts that are shown."""
    event = report.event
    fields = msgspec.structs.asdict(present_delivery(report.summary, registration))
    fields["attempts"] = attempts
    fields["registration"] = (
        # As it is now. What it was at the time of the attempts is not kept.
        None
        if registration is None
        else present_registration(registration, Showing(instance_id, catalog, secret_options))
    )
    fields["event"] = responses.Event(
        id=event.id,
        event=event.kind,
        instance=event.instance,
        data=msgspec.Raw(event.data_json),  # the bytes that were emitted: key order and digits survive
        date_time=event.date_time,
        sender=event.sender,
        server_url=event.server_url,
    )
    return responses.Report(**fields)


def present_lane(
    lane: LaneStatistics, instance: str | None, label: str | None, now: float, node: str = ""
) -> responses.Lane:
    """Return the state of a lane.

    Args:
        lane: a snapshot of it.
        instance, label: of the lane's registration; ``None`` if it was deleted.
        now: the time of the steady clock.
        node: where the lane is; empty without a fleet.
    """
    return responses.Lane(
        lane=lane.lane,
        registration=lane.registration,
        instance=instance,
        label=label,
        partition=lane.partition,
        url=lane.url,
        state=lane.state,
        backlog=lane.backlog,
        held=lane.held,
        head=None if lane.head is None else f"dlv_{lane.head}",
        head_instance=lane.head_instance,
        # The steady clock of the snapshot may be a moment behind: never negative.
        head_age=None if lane.head_since is None else round(max(0.0, now - lane.head_since), 3),
        waiting_until=present_time(lane.waiting_until),
        waits_for=lane.waits_for,
        last_outcome=lane.last_outcome,
        last_error=lane.last_error,
        advice=advice_for(lane, now),
        node=node or UNSET,
    )


def present_audit_entry(entry: AuditEntry, *, is_global: bool) -> responses.AuditEntry:
    """Return an entry of the audit.

    Args:
        entry: the entry.
        is_global: whether a global key asks. Others do not learn where operators are.
    """
    actor = entry.actor
    is_operator = actor.kind is ActorKind.KEY and actor.instance is None
    return responses.AuditEntry(
        at=rfc3339(entry.at),
        action=entry.action,
        instance=entry.instance,
        subject=entry.subject,
        actor=responses.Actor(
            kind=actor.kind,
            name=actor.name or None,
            instance=actor.instance,
            address=actor.address if is_global or not is_operator else None,
            via=actor.via or None,
        ),
        changes=[
            responses.FieldChange(field=change.field, before=change.before, after=change.after)
            for change in entry.changes
        ],
        details=entry.details,
    )


def present_chat(chat: Chat) -> responses.Chat:
    return responses.Chat(
        id=chat.jid,
        remote_jid=chat.jid,
        push_name=chat.name,
        profile_pic_url=None,
        updated_at=rfc3339(chat.updated_at),
        last_message=responses.LastMessage(**msgspec.structs.asdict(chat.last_message)),
        unread_count=None,
        is_saved=chat.name is not None,
    )


def present_contact(contact: Contact) -> responses.Contact:
    is_saved = contact.name is not None or contact.picture_url is not None
    return responses.Contact(
        id=contact.jid,
        remote_jid=contact.jid,
        push_name=contact.name,
        profile_pic_url=contact.picture_url,
        updated_at=rfc3339(contact.updated_at),
        is_group=contact.is_group,
        is_saved=is_saved,
        # The words of Evolution API.
        type="group" if contact.is_group else "contact" if is_saved else "group_member",
    )


def present_messages(page: MessagePage, query: MessageQuery, instance_id: str) -> responses.MessagePage:
    """Return a page of messages, as Evolution API has it."""
    records = [
        responses.FoundMessage(
            id=one.id,
            key=one.key,
            push_name=one.push_name,
            message_type=one.message_type,
            message=one.message,
            message_timestamp=one.message_timestamp,
            instance_id=instance_id,
            source=one.source,
            context_info=one.context_info,
            message_update=[responses.MessageStatus(status) for status in one.statuses],
        )
        for one in page.records
    ]
    pages = -(-page.total // query.size)
    return responses.MessagePage(
        responses.FoundMessages(total=page.total, pages=pages, current_page=query.page, records=records)
    )


def present_file(file: StoredFile, head: MediaHead | None, message_id: str) -> responses.MediaFile:
    """Return the file of a message.

    Args:
        file: the file.
        head: what is known of it; ``None`` if it is in the event. Otherwise its content is left out.
        message_id: of the message.
    """
    described = file.described
    caption = described.get("caption")
    mimetype = head.mimetype if head is not None else str(described.get("mimetype") or "")
    name = head.file_name if head is not None else described.get("fileName")
    if not isinstance(name, str) or not name:
        # As Evolution API names it.
        end = mimetypes.guess_extension(mimetype.partition(";")[0].strip()) or ""
        name = f"{message_id}{end}"
    return responses.MediaFile(
        media_type=file.message_type,
        file_name=name,
        caption=caption if isinstance(caption, str) else None,
        size=responses.FileSize(
            file_length=described.get("fileLength"),
            height=described.get("height"),
            width=described.get("width"),
        ),
        mimetype=mimetype,
        base64=file.base64,
    )
