"""Repairs of many webhooks and accounts, as one node carries them out."""

from hookgw import Conflict
from tests.public.operations import RepairAsked, Repairs
from tests.public.records import HOOKGW, Instance, Repair


class FakeServices:
    """Notes what is asked of it, and refuses what concerns one instance."""

    def __init__(self, refused: str = "", renewed_after: int = 100) -> None:
        self.refused = refused
        self.renewed_after = renewed_after
        self.asked: list[tuple[str, ...]] = []

    async def pause(self, instance: str, label: str) -> None:
        self._note("pause", instance, label)

    async def resume(self, instance: str, label: str) -> None:
        self._note("resume", instance, label)

    async def update(self, instance: str, label: str, change: object, *, backfill: bool) -> None:
        self._note("enable" if backfill else "disable", instance, label)

    async def connect(self, name: str) -> None:
        self._note("connect", name)

    def find(self, name: str) -> Instance | None:
        return Instance(name=name, id="former" if len(self.asked) < self.renewed_after else "later")

    def _note(self, *asked: str) -> None:
        if asked[1] == self.refused:
            raise Conflict("Not now.")
        self.asked.append(asked)


def places(*names: str) -> list[tuple[str, str]]:
    return [(name, "default") for name in names]


async def test_a_node_repairs_what_it_holds_alone() -> None:
    services = FakeServices()
    repairs = Repairs(services, services, {"a", "b"}.__contains__)
    part = await repairs.answer(RepairAsked(Repair.TRY, places("a", "b", "c"), HOOKGW))
    assert (part.done, part.refused) == (2, [])
    assert services.asked == [("resume", "a", "default"), ("resume", "b", "default")]


async def test_a_refusal_ends_nothing_else() -> None:
    services = FakeServices(refused="a")
    repairs = Repairs(services, services, lambda _: True)
    part = await repairs.answer(RepairAsked(Repair.ENABLE, places("a", "b"), HOOKGW))
    assert (part.done, part.refused) == (1, [("a/default", ["Not now."])])
    assert services.asked == [("enable", "b", "default")]


async def test_a_later_instance_of_a_name_is_left_alone() -> None:
    services = FakeServices(renewed_after=1)
    repairs = Repairs(services, services, lambda _: True)
    part = await repairs.answer(RepairAsked(Repair.DISABLE, places("a", "b"), HOOKGW))
    assert (part.done, part.refused) == (1, [("b/default", ["The instance 'b' was deleted."])])
    assert services.asked == [("disable", "a", "default")]


async def test_each_repair_is_its_own_call() -> None:
    services = FakeServices()
    repairs = Repairs(services, services, lambda _: True)
    for repair in Repair:
        await repairs.answer(RepairAsked(repair, places("a"), HOOKGW))
    assert [asked[0] for asked in services.asked] == ["resume", "pause", "enable", "connect", "disable"]
