"""The rate of a tag, from the settings to the lanes of a gateway."""

from pathlib import Path
from typing import Any

import pytest

from hookgw.testing import Receiver, open_kit

pytestmark = pytest.mark.usefixtures("hookgw_clock")

SETTINGS: dict[str, Any] = {"limits": {"tags": {"tenant": {"rate": "1/m"}}}}


async def test_the_instances_of_a_tenant_take_turns_and_others_do_not_wait(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    async with open_kit(tmp_path, settings=SETTINGS) as kit:
        for name, tenant in {"a1": "acme", "a2": "acme", "b1": "bolt"}.items():
            await kit.register(hookgw_receiver.url, instance=name)
            await kit.gateway.instances.change_tags(name, {"tenant": tenant})
        await kit.register(hookgw_receiver.url, instance="none")
        for name in ("a1", "a2", "b1", "none", "none"):
            await kit.emit("CALL", {}, instance=name)
        await hookgw_receiver.wait_for(4)
        came = [request.header("x-instance-name") for request in hookgw_receiver.requests]
        assert sorted(map(str, came)) in (["a1", "b1", "none", "none"], ["a2", "b1", "none", "none"])
        await kit.advance(61)
        await hookgw_receiver.wait_for(5)


async def test_an_instance_with_another_tag_waits_for_its_former_tenant_no_longer(
    tmp_path: Path, hookgw_receiver: Receiver
) -> None:
    async with open_kit(tmp_path, settings=SETTINGS) as kit:
        await kit.register(hookgw_receiver.url)
        await kit.gateway.instances.change_tags("shop", {"tenant": "acme"})
        for _ in range(2):
            await kit.emit("CALL", {})
        await hookgw_receiver.wait_for(1)
        await kit.gateway.instances.change_tags("shop", {})
        await hookgw_receiver.wait_for(2)
