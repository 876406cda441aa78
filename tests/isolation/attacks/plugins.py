"""Plugins that fail in every way, for the events of one instance only.

A plugin runs with all rights of the process, so these are mistakes rather than attacks.
"""

from tests.isolation.attack import attack
from tests.isolation.target import Target, batch, emit, event, ok

_HEAD = """
import asyncio, itertools, math, time
import hookgw, trio
turn = itertools.count()

def theirs(event, registration=None):
    return event.instance == "attacker"

def cancelled():
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            raise trio.Cancelled._create()
        except TypeError:
            raise trio.Cancelled._create(source="explicit")

class Odd(BaseException):
    pass

def fail():
    number = next(turn) % 8
    if number == 0: raise Odd("odd")
    if number == 1: raise KeyboardInterrupt
    if number == 2: raise SystemExit(3)
    if number == 3: raise GeneratorExit
    if number == 4: raise asyncio.CancelledError
    if number == 5: raise BaseExceptionGroup("all", [Odd("odd"), KeyboardInterrupt()])
    if number == 6: cancelled()
    raise BaseExceptionGroup("cancelled", [ValueError(), Odd()])
"""

_RETRY = {"schedule": ["100ms"] * 100}


async def _emit(target: Target) -> None:
    key = await target.tenant()
    await target.register(await target.receiver(ok), ordering="none", concurrency=8, retry=_RETRY)
    request = emit(batch([event()] * 5), key)
    await target.begin()
    await target.flood(lambda: request, connections=1, pause=0.1)


def _raising(hook: str, arguments: str, *, is_async: bool) -> str:
    return f"""
@hookgw.hookimpl
{"async " if is_async else ""}def {hook}({arguments}):
    if theirs(event):
        fail()
"""


@attack(
    "exceptions in filters",
    "a filter raises BaseException, KeyboardInterrupt, SystemExit, groups, and stray Cancelled",
    plugin=_HEAD + _raising("hookgw_filter", "event, registration", is_async=False),
)
async def filters(target: Target) -> None:
    await _emit(target)


@attack(
    "exceptions in async hooks",
    "the same in async hooks that accept, transform, prepare and observe",
    plugin=_HEAD
    + _raising("hookgw_event_accepted", "event", is_async=True)
    + _raising("hookgw_transform", "event, registration", is_async=True)
    + """
@hookgw.hookimpl
async def hookgw_attempt(attempt, delivery, registration):
    if registration.instance == "attacker":
        fail()

@hookgw.hookimpl
async def hookgw_lane_state(lane, state, registration, partition, url):
    fail()
""",
)
async def async_hooks(target: Target) -> None:
    await _emit(target)


@attack(
    "hostile results",
    "a transform returns events that cannot be sent, and prepare destroys the headers",
    plugin=_HEAD
    + """
RESULTS = [None, [], "text", {"a": None}, {1: 2}, {"a": object()}]

@hookgw.hookimpl
def hookgw_prepare(request, event, registration):
    if theirs(event):
        number = next(turn) % 8
        if number < 6:
            request.headers = RESULTS[number]
        elif number == 6:
            del request.headers
        else:
            request.body = object()

@hookgw.hookimpl
def hookgw_transform(event, registration):
    if theirs(event):
        number = next(turn) % 6
        if number == 0: return event.replace(data_json="text")
        if number == 1: return event.replace(data_json=None)
        if number == 2: return event.replace(sender=object())
        if number == 3: return event.replace(time=math.nan)
        if number == 4: return event.replace(time=1e300)
""",
)
async def results(target: Target) -> None:
    await _emit(target)


@attack(
    "exceptions in background tasks",
    "hookgw_run raises, returns, and cancels, each time it is started",
    plugin=_HEAD
    + """
@hookgw.hookimpl
async def hookgw_run(gateway):
    await trio.sleep(0.1)
    fail()
""",
)
async def background(target: Target) -> None:
    await _emit(target)


@attack(
    "slow hooks",
    "async hooks that hang until their timeout",
    plugin=_HEAD
    + """
@hookgw.hookimpl
async def hookgw_filter(event, registration):
    if theirs(event):
        await trio.sleep_forever()
""",
)
async def slow_hooks(target: Target) -> None:
    await _emit(target)


@attack(
    "blocking hook",
    "a hook blocks the event loop for 3 s, once",
    plugin=_HEAD
    + """
@hookgw.hookimpl
def hookgw_filter(event, registration):
    if theirs(event) and next(turn) == 0:
        time.sleep(3)
""",
    blocks=True,
)
async def blocking(target: Target) -> None:
    await _emit(target)
