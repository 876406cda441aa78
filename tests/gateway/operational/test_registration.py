"""The registration of the settings for operational events."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hookgw.config.settings import OperationsSettings
from hookgw.gateway.operational.registration import operations_lane, read_operations, wanted_kinds
from hookgw.models.clock import Clock
from hookgw.models.operational_kinds import OPERATIONAL_NAMES, OPERATIONS_ID
from hookgw.models.registrations import GLOBAL_INSTANCE
from hookgw.store import open_store

SETTINGS = OperationsSettings(url="https://ops.example/hook", headers={"X-Token": "abc"})


@pytest.mark.parametrize(
    ("named", "wanted"),
    [
        ((), OPERATIONAL_NAMES),
        (("LANE_FAILING", "lane.recovered"), {"LANE_FAILING", "LANE_RECOVERED"}),
    ],
)
def test_which_kinds_go_there(named: tuple[str, ...], wanted: frozenset[str]) -> None:
    assert wanted_kinds(OperationsSettings(events=named)) == wanted


async def test_without_a_url_there_is_none(tmp_path: Path) -> None:
    async with open_store(tmp_path / "hookgw.db", clock=Clock()) as store:
        assert await read_operations(OperationsSettings(), store) is None


async def test_it_is_made_of_the_settings(tmp_path: Path) -> None:
    async with open_store(tmp_path / "hookgw.db", clock=Clock()) as store:
        found = await read_operations(SETTINGS, store)
    assert found is not None
    assert (found.id, found.instance, found.url) == (OPERATIONS_ID, GLOBAL_INSTANCE, SETTINGS.url)
    assert (found.headers, found.enabled) == ({"X-Token": "abc"}, True)
    assert operations_lane(found) == "https://ops.example/hook#operations"


async def test_a_secret_is_made_once_and_kept_and_a_given_one_goes_before_it(tmp_path: Path) -> None:
    given = msgspec.structs.replace(SETTINGS, secret="whsec_" + "QUJD" * 8)
    secrets = []
    for settings in (SETTINGS, SETTINGS, given, SETTINGS):
        async with open_store(tmp_path / "hookgw.db", clock=Clock()) as store:
            found = await read_operations(settings, store)
            assert found is not None
            secrets.append(found.secrets[0].value)
    assert secrets[0] == secrets[1] == secrets[3]
    assert secrets[2] == given.secret
