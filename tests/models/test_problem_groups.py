"""Problems by their causes."""

import pytest

from tests.public.operations import cause_of_closing, cause_of_disabling, cause_of_failure
from tests.public.records import Loss, Mute, Outcome, Problem, ProblemKind, group_problems

NOW = 1_000.0
URL = "http://127.0.0.1:9000/hook"


def problem(kind: ProblemKind = ProblemKind.WEBHOOK_FAILING, *, cause: str = "", **fields: object) -> Problem:
    return Problem(kind, "Why.", cause=cause, **fields)  # type: ignore[arg-type]


def test_one_cause_is_one_group() -> None:
    found = group_problems(
        [
            problem(cause="it refuses", instance="a", since=900.0, pending=3),
            problem(cause="it refuses", instance="b", since=800.0, pending=4),
            problem(cause="it is slow", instance="c", since=700.0),
        ],
        {},
        NOW,
    )
    assert [(one.title, len(one.problems), one.pending, one.since) for one in found] == [
        ("it refuses", 2, 7, 800.0),
        ("it is slow", 1, 0, 700.0),
    ]
    assert [one.instance for one in found[0].problems] == ["b", "a"]


def test_what_loses_most_comes_first() -> None:
    kinds = [
        ProblemKind.INSTANCE_QUIET,
        ProblemKind.WEBHOOK_FAILING,
        ProblemKind.INSTANCE_CLOSED,
        ProblemKind.WEBHOOK_DISABLED,
    ]
    waiting = [
        problem(kind, instance="a", pending=9 if number == 1 else 0) for number, kind in enumerate(kinds)
    ]
    assert [one.kind for one in group_problems(waiting, {}, NOW)] == kinds[::-1]


def test_what_a_receiver_refuses_is_lost() -> None:
    found = group_problems(
        [problem(instance="a", pending=9), problem(cause="x", instance="b", loses=True)], {}, NOW
    )
    assert [one.loss for one in found] == [Loss.EVENTS, Loss.TIME]


def test_problems_without_a_known_cause_stay_apart() -> None:
    found = group_problems([problem(instance="a"), problem(instance="b"), problem(ProblemKind.DISK)], {}, NOW)
    assert len(found) == 3


@pytest.mark.parametrize("outcome", [Outcome.UNANSWERED, Outcome.UNREACHABLE])
def test_many_hosts_that_cannot_be_reached_are_one_group(outcome: Outcome) -> None:
    """As 200 receivers behind a network that is down."""
    failing = [
        problem(instance=f"a{number}", cause=cause_of_failure(f"http://host{number}/", outcome, "Timed out."))
        for number in range(200)
    ]
    refusing = [problem(instance="b", cause=f"other{number} answers 500") for number in range(20)]
    found = group_problems([*failing, *refusing], {}, NOW)
    assert len(found) == 21
    assert found[0].title == failing[0].cause.replace("host0", "Each of 200 hosts")
    assert len(found[0].problems) == 200
    fewer = group_problems(failing[:6], {}, NOW)
    assert [one.id for one in fewer] == [found[0].id], "a mute lasts while they come back"
    single = group_problems(failing[:5], {}, NOW)
    assert len(single) == 5
    muted = {single[0].id: Mute("known", NOW + 10)}
    assert [len(one.problems) for one in group_problems(failing, muted, NOW)] == [199, 1]
    assert len(group_problems(failing, muted, NOW + 10)) == 1, "a mute that has ended keeps nothing apart"
    disabled = [problem(ProblemKind.BACKLOG, instance=one.instance, cause=one.cause) for one in failing]
    assert len(group_problems([*failing, *disabled], {}, NOW)) == 2, "each kind has repairs of its own"


def test_muted_groups_come_last_until_their_time() -> None:
    problems = [problem(cause="x", instance="a", pending=5), problem(cause="y", instance="b")]
    first = group_problems(problems, {}, NOW)[0].id
    mutes = {first: Mute("known", NOW + 10)}
    assert [(one.title, one.mute is not None) for one in group_problems(problems, mutes, NOW)] == [
        ("y", False),
        ("x", True),
    ]
    assert group_problems(problems, mutes, NOW + 10)[0].title == "x"


@pytest.mark.parametrize(
    ("outcome", "error", "cause"),
    [
        (
            Outcome.UNREACHABLE,
            "No connection to port 9000 of 127.0.0.1: Connection refused.",
            "refuses connections",
        ),
        (Outcome.UNREACHABLE, "The name has no address.", "cannot be reached"),
        (Outcome.UNREACHABLE, "The certificate was refused: expired.", "has a certificate that is refused"),
        (Outcome.UNANSWERED, "It did not respond within 30 s.", "does not answer in time"),
        (Outcome.FAILED, "The receiver answered 500 Internal Server Error.", "answers 500"),
        (Outcome.UNREACHABLE, "The receiver answered 503 Service Unavailable.", "answers 503"),
        (Outcome.BLOCKED, "The address 10.0.0.5 is private.", "is blocked"),
        (None, None, "fails"),
        (Outcome.FAILED, "The plugin x failed.", "fails"),
    ],
)
def test_the_cause_of_a_failure(outcome: Outcome | None, error: str | None, cause: str) -> None:
    assert cause_of_failure(URL, outcome, error) == f"127.0.0.1:9000 {cause}"


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (
            "The host {} could not be resolved: Temporary failure in name resolution.",
            "Name servers do not answer",
        ),
        ("Looking up {} took longer than 10 s.", "Name servers do not answer"),
        (
            "The proxy proxy.lan:3128 could not be resolved: Temporary failure in name resolution.",
            "Name servers do not answer",
        ),
        (
            "No connection to the proxy proxy.lan:3128: 10.0.0.5: Connection refused.",
            "The proxy proxy.lan:3128 cannot be used",
        ),
        (
            "The proxy proxy.lan:3128 requires other credentials (407).",
            "The proxy proxy.lan:3128 cannot be used",
        ),
        (
            (
                "The proxy proxy.lan:3128 answered 405 Method Not Allowed to CONNECT: it is no HTTP proxy, "
                "or does not take CONNECT."
            ),
            "The proxy proxy.lan:3128 cannot be used",
        ),
        (
            (
                "No connection to port 443 of {} through the proxy proxy.lan:80: 192.0.2.1: the proxy "
                "answered 400 Bad Request: it may be no HTTP proxy; 192.0.2.2: the proxy answered 400 Bad "
                "Request: it may be no HTTP proxy."
            ),
            "The proxy proxy.lan:80 cannot be used",
        ),
        (
            (
                "No connection to port 443 of {}: 192.0.2.1: Network is unreachable; "
                "2001:db8::1: Network is unreachable."
            ),
            "hookgw has no route to receivers",
        ),
    ],
)
def test_what_fails_on_this_side_is_one_cause_for_all_receivers(error: str, cause: str) -> None:
    found = {
        cause_of_failure(f"https://{host}/hook", Outcome.UNREACHABLE, error.format(host))
        for host in ("crm.example", "shop.example")
    }
    assert found == {cause}


@pytest.mark.parametrize(
    "error",
    [
        "The host crm.example could not be resolved: Name or service not known.",
        (
            "No connection to port 443 of crm.example: 192.0.2.1: No route to host; "
            "2001:db8::1: Network is unreachable."
        ),
        (
            "No connection to port 443 of crm.example through the proxy p:80: 192.0.2.1: "
            "the proxy answered 502 Bad Gateway."
        ),
    ],
)
def test_what_may_fail_at_the_receiver_is_a_cause_of_its_own(error: str) -> None:
    cause = cause_of_failure("https://crm.example/x", Outcome.UNREACHABLE, error)
    assert cause == "crm.example cannot be reached"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("amqp://shop:hunter22@broker.example/vhost", "broker.example"),
        ("amqps://shop:hunter22@[2001:db8::1]:5673", "[2001:db8::1]:5673"),
        ("https://shop:hunter22@crm.example:443/hook", "crm.example"),
        ("http://crm.example:443/hook", "crm.example:443"),
        ("loja1/default", "loja1/default"),
        ("amqp://shop:hunter22@bro ker/", "amqp://bro ker/"),
    ],
)
def test_a_cause_names_the_host_without_user_and_password(url: str, host: str) -> None:
    """Causes reach alerts, and people who may not see a password."""
    assert cause_of_failure(url, Outcome.UNREACHABLE, "No answer.") == f"{host} cannot be reached"


def test_a_receiver_that_fetches_and_acknowledges_nothing_is_no_host_that_is_silent() -> None:
    error = "The consumer 'n8n' did not acknowledge it before its lease ended, after 60 s."
    assert cause_of_failure("loja1/crm", Outcome.UNANSWERED, error) == "loja1/crm acknowledges nothing"


def test_the_cause_of_what_is_over() -> None:
    gone = cause_of_disabling("https://crm.example/x", "The receiver answered 410 Gone.")
    assert gone == "crm.example answers 410: webhooks are disabled"
    assert "failed too long" in cause_of_disabling(URL, "It failed for 432000 s without one success.")
    assert cause_of_closing("Logged out. Connect it again.") == "Not connected: Logged out"
