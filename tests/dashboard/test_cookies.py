from tests.public.site import SESSION, Cookies


def test_over_tls_no_other_host_can_set_the_cookie() -> None:
    cookies = Cookies("/hooks/dashboard", "a1b2", True)
    assert cookies.set(SESSION, "abc") == (
        "__Host-hookgw_session_a1b2=abc; Path=/; HttpOnly; SameSite=Strict; Secure"
    )


def test_without_tls_the_cookie_is_for_the_dashboard_alone() -> None:
    cookies = Cookies("/hooks/dashboard", "a1b2", False)
    assert cookies.remove(SESSION) == (
        "hookgw_session_a1b2=; Path=/hooks/dashboard; Max-Age=0; HttpOnly; SameSite=Strict"
    )


def test_a_cookie_is_found_among_those_of_other_programs() -> None:
    cookies = Cookies("/dashboard", "a1b2", False)
    assert cookies.get(SESSION, 'a=1; b="x;y"; hookgw_session_a1b2=t0-ken_; c') == "t0-ken_"
    assert cookies.get(SESSION, "xhookgw_session_a1b2=1; hookgw_session_a1b22=2") == ""
    assert cookies.get(SESSION, "") == ""
    # A cookie that another host of the domain may have set is not ours.
    assert Cookies("/", "a1b2", True).get(SESSION, "hookgw_session_a1b2=1") == ""


def test_two_gateways_on_one_host_have_cookies_of_their_own() -> None:
    header = Cookies("/dashboard", "a1b2", False).set(SESSION, "first").partition(";")[0]
    assert Cookies("/dashboard", "c3d4", False).get(SESSION, header) == ""
