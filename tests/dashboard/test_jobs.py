"""The page of jobs, over HTTP."""

import re
from collections.abc import Awaitable, Callable

import msgspec
import pytest
import trio

from hookgw import Gateway
from hookgw.core import jobs
from tests.dashboard.conftest import Browser
from tests.public.core import acting_as
from tests.public.records import Actor, ActorKind, BackfillScope, DeliverySelection, Job, JobKind


async def until(browser: Browser, text: str) -> str:
    """Open the page until it has a text; return it."""
    with trio.fail_after(20):
        while text not in (page := (await browser.get("/jobs")).text):  # noqa: ASYNC110 -- a page
            await trio.sleep(0.02)
    return page


def states(page: str) -> list[str]:
    return re.findall(r'<span class="state (\w+)">', page)


@pytest.fixture
async def replay(gateway: Gateway) -> jobs.RunningJob:
    """A replay that never comes to its end by itself."""
    await gateway.instances.create("loja1", token="key-of-loja1")
    await gateway.instances.create("loja2", token="key-of-loja2")
    instance = gateway.instances.get("loja1")

    def begin(running: jobs.RunningJob) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            while await gateway.jobs.obey(running):
                running.job = running.job.advanced(1_000, None)
                await trio.sleep(0.02)

        return work

    asked = DeliverySelection(label="crm")
    with acting_as(Actor(kind=ActorKind.KEY, name="ops", address="203.0.113.9", via="dashboard")):
        job = gateway.jobs.new(JobKind.REPLAY, "loja1", instance_id=instance.id, replay=asked)
    return gateway.jobs.start(job, begin, is_stored=False)


async def test_without_a_job_the_page_says_so(browser: Browser) -> None:
    page = (await browser.get("/jobs")).text
    assert "No job runs, and none has ended in the last day." in page
    assert 'href="/dashboard/jobs" aria-current="page">Jobs</a>' in page


async def test_a_replay_is_paused_resumed_and_cancelled(browser: Browser, replay: jobs.RunningJob) -> None:
    page = await until(browser, f'value="pause/{replay.job.id}"')
    assert states(page) == ["running"]
    assert 'href="/dashboard/instances/loja1">loja1</a>' in page
    assert '<td data-label="Who asked">key ops, dashboard</td>' in page
    assert "203.0.113.9" not in page
    for order, state, notice in (
        ("pause", "paused", "The job pauses after its present step, until it is resumed."),
        ("resume", "running", "The job goes on."),
        ("cancel", "cancelled", "The job ends. What it has done stays."),
    ):
        assert f'name="order" value="{order}/{replay.job.id}"' in (await browser.get("/jobs")).text
        done = await browser.submit("/jobs", "/jobs/order", {"order": f"{order}/{replay.job.id}"})
        assert done.status_code == 303
        page = (await browser.http.get(done.headers["location"])).text
        assert notice in page
        assert states(page) == [state]
    assert 'name="order"' not in page  # it has ended
    late = await browser.submit("/jobs", "/jobs/order", {"order": f"resume/{replay.job.id}"})
    assert (late.status_code, "The job has ended." in late.text) == (409, True)


async def test_the_page_of_a_job_says_how_far_it_is_and_takes_orders(
    browser: Browser, replay: jobs.RunningJob
) -> None:
    name = replay.job.id
    await until(browser, f'href="/dashboard/jobs/{name}"')
    page = (await browser.get(f"/jobs/{name}?of=5000")).text
    assert '<progress max="5000" value="' in page
    asked = {"order": f"pause/{name}", "page": name, "of": "5000"}
    paused = await browser.submit("/jobs", "/jobs/order", asked)
    assert paused.headers["location"] == f"/dashboard/jobs/{name}?of=5000&done=job_paused"
    page = (await browser.get(f"/jobs/{name}")).text
    assert states(page) == ["paused"]
    assert "<progress" not in page  # without a plan nobody knows of how many
    assert (await browser.get("/jobs/job_none")).status_code == 404


@pytest.mark.parametrize("order", ["", "pause", "stop/job_1", "pause/job_1"])
async def test_what_is_no_order_or_no_job_is_refused(browser: Browser, order: str) -> None:
    refused = await browser.submit("/jobs", "/jobs/order", {"order": order})
    assert refused.status_code == (404 if order.startswith("pause") else 400)
    assert 'role="alert"' in refused.text


async def test_a_tenant_sees_and_orders_its_own_jobs_alone(visitor: Browser, replay: jobs.RunningJob) -> None:
    await visitor.log_in("key-of-loja2")
    assert replay.job.id not in (await visitor.get("/jobs")).text
    refused = await visitor.submit("/jobs", "/jobs/order", {"order": f"cancel/{replay.job.id}"})
    assert refused.status_code == 404
    for page in (f"/jobs/{replay.job.id}", f"/live/job/{replay.job.id}"):
        assert (await visitor.get(page)).status_code == 404
    assert replay.job.is_running
    visitor.http.cookies.clear()
    await visitor.log_in("key-of-loja1")
    assert replay.job.id in (await visitor.get("/jobs")).text


async def test_the_page_says_why_a_job_is_delayed(browser: Browser, replay: jobs.RunningJob) -> None:
    await until(browser, f"pause/{replay.job.id}")
    await browser.submit("/jobs", "/jobs/order", {"order": f"pause/{replay.job.id}"})
    replay.job = msgspec.structs.replace(replay.job, error="The disk is full.")
    assert "The disk is full." in (await browser.get("/jobs")).text


async def test_a_backfill_is_cancelled_in_its_own_way(browser: Browser, gateway: Gateway) -> None:
    """Lanes wait for it; it cannot be paused."""
    await gateway.instances.create("loja1")
    instance, ended = gateway.instances.get("loja1"), []

    async def cancel(name: str, label: str) -> Job:
        ended.append((name, label))
        return job

    gateway.backfills.cancel = cancel  # type: ignore[method-assign,assignment]

    def begin(_: jobs.RunningJob) -> Callable[[], Awaitable[None]]:
        return trio.sleep_forever

    scope = BackfillScope(registration="reg", label="crm")
    job = gateway.jobs.new(JobKind.BACKFILL, "loja1", instance_id=instance.id, backfill=scope)
    gateway.jobs.start(job, begin, is_stored=False)
    page = (await browser.get("/jobs")).text
    assert 'href="/dashboard/instances/loja1/webhooks/crm">loja1 / crm</a>' in page
    assert "pause/" not in page
    done = await browser.submit("/jobs", "/jobs/order", {"order": f"cancel/{job.id}"})
    assert (done.status_code, ended) == (303, [("loja1", "crm")])
