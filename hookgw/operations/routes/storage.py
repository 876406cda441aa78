"""``/storage``: backups of the data file."""

from __future__ import annotations

from quart import Response

from hookgw.kernel.json_fields import Fields, as_text
from hookgw.operations import responses
from hookgw.records.api_keys import Right
from hookgw.web.openapi.describe import describes, json_body
from hookgw.web.request_body import json_response, read_optional_json
from hookgw.web.route_group import RouteGroup, route

_BODY = json_body("BackupRequest", required=False, a_name={"name": "before-the-update.db"}, the_time={})


class StorageRoutes(RouteGroup):
    @route("POST", "/storage/backup")
    @describes(
        "Storage",
        Right.OPERATE,
        {201: responses.Backup, 202: responses.Backup},
        body=_BODY,
        errors=(409, 503),
    )
    async def backup(self) -> Response:
        """Write a consistent copy of the data file to a new file in `storage.backup_folder`.

        The gateway goes on meanwhile. If it takes more than 2 s, the response has its job, whose `done` and
        `total` are pages of the file.
        """
        body = await read_optional_json(self._limit)
        fields = Fields.of_body({} if body is None else body)
        name = fields.pick(as_text, "name")  # the gateway checks it
        fields.finish()
        made = await self._gateway.backups.create(name)
        if made.job.is_running:
            return json_response(responses.Backup(name=made.name, job=made.job.id), 202)
        return json_response(responses.Backup(name=made.name), 201)
