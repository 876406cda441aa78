from __future__ import annotations

from hookgw.dashboard.cookies import SESSION, Cookies


def test_over_tls_no_other_host_can_set_the_cookie() -> None:
    cookies = Cookies("/hooks/dashboard", True)
    assert cookies.set(SESSION, "abc") == (
        "__Host-hookgw_session=abc; Path=/; HttpOnly; SameSite=Strict; Secure"
    )


def test_without_tls_the_cookie_is_for_the_dashboard_alone() -> None:
    cookies = Cookies("/hooks/dashboard", False)
    assert cookies.remove(SESSION) == (
        "hookgw_session=; Path=/hooks/dashboard; Max-Age=0; HttpOnly; SameSite=Strict"
    )


def test_a_cookie_is_found_among_those_of_other_programs() -> None:
    cookies = Cookies("/dashboard", False)
    assert cookies.get(SESSION, 'a=1; b="x;y"; hookgw_session=t0-ken_; c') == "t0-ken_"
    assert cookies.get(SESSION, "xhookgw_session=1; hookgw_session2=2") == ""
    assert cookies.get(SESSION, "") == ""
    # A cookie that another host of the domain may have set is not ours.
    assert Cookies("/", True).get(SESSION, "hookgw_session=1") == ""
