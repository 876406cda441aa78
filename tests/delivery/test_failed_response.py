import pytest

from tests.public.delivery import describe_response


@pytest.mark.parametrize(
    ("status", "location", "parts"),
    [
        (302, "https://new.example/hook", ["302 Found", "to https://new.example/hook", "not followed"]),
        (301, None, ["301 Moved Permanently", "not followed"]),
        (500, None, ["500 Internal Server Error"]),
        (599, None, ["599"]),
        (405, None, ["answered 405 Method Not Allowed: it takes no POST there", "Correct the URL"]),
        (413, None, ["answered 413 ", "Raise its limit for bodies."]),
        (431, None, ["answered 431 ", "Raise its limit for headers", "of the registration."]),
        (426, None, ["answered 426 Upgrade Required: its port wants TLS", "Use https:// in the URL"]),
        (429, None, ["answered 429 Too Many Requests: ", "Set rate of the registration"]),
        (421, None, ["answered 421 Misdirected Request: TLS asked for another name", "of tls.serverName"]),
        (419, None, ["answered 419: it wants a CSRF token", "Exempt the URL from it."]),
    ],
)
def test_the_error_names_the_status(status: int, location: str | None, parts: list[str]) -> None:
    error = describe_response(status, location)
    assert all(part in error for part in parts)


_ECHO = "https://script.googleusercontent.com/macros/echo?user_content_key=AUkAhnS"


@pytest.mark.parametrize("status", [302, 303])
def test_an_apps_script_has_run_and_is_told_how_to_answer_itself(status: int) -> None:
    """Its output is for one reader at that URL, which is nothing to register."""
    error = describe_response(status, _ECHO)
    assert "The script has run" in error
    assert "HtmlService.createHtmlOutput()" in error
    assert "user_content_key" not in error


@pytest.mark.parametrize(
    "location",
    [
        *(
            "/login",
            "https://crm.example/login?next=%2Fhook",
            "/accounts/login/",
            "/users/sign_in",
            "//x/signin",
        ),
        *(
            "https://crm.example/wp-login.php?redirect_to=x",
            "https://x.example/cdn-cgi/access/login/crm.example",
        ),
        *(
            "https://accounts.google.com/ServiceLogin?passive=1",
            "https://accounts.google.com/v3/signin/identifier",
        ),
        *(
            "https://id.example/realms/a/protocol/openid-connect/auth?client_id=a&response_type=code",
            "https://login.microsoftonline.com/a/oauth2/v2.0/authorize?response_type=id_token&scope=openid",
            "https://adfs.example/adfs/ls/?wa=wsignin1.0&wtrealm=urn:crm",
            "https://idp.example/sso?SAMLRequest=fZJNb&RelayState=%2Fhook",
            "https://crm.example/oauth2/start?rd=%2Fhook",
            "https://auth.example/?rd=https%3A%2F%2Fcrm.example%2Fhook&rm=POST",
        ),
    ],
)
def test_a_redirect_to_a_login_is_no_url_to_register(location: str) -> None:
    error = describe_response(302, location)
    assert (
        error == f"The receiver answered 302 Found to {location}: it wants a login. Exempt the URL from it."
    )


@pytest.mark.parametrize(
    "location",
    [
        *(
            "https://new.example/hook",
            "/hook/",
            "https://x.example/catalogin",
            "/hook?next=/login",
            "",
            "https://[",
        ),
        *(
            "https://logins.example/a",
            "https://script.googleusercontent.com.x.example/",
            "/weblogin2",
            "login",
        ),
        *(
            "https://crm.example/hook?client_id=7",
            "https://crm.example/hook?next=https%3A%2F%2Fid.example%2Fauth%3Fresponse_type%3Dcode",
            "https://crm.example/hook?shard=1&xrd=2",
            "https://crm.example/rd=1#?rd=/",
        ),
    ],
)
def test_other_redirects_lead_to_the_final_url(location: str) -> None:
    assert describe_response(302, location).endswith("Register the final URL.")


def test_a_304_is_not_called_a_redirect() -> None:
    assert describe_response(304, "https://new.example/") == "The receiver answered 304 Not Modified."


def test_a_long_location_is_cut() -> None:
    assert len(describe_response(301, "x" * 10_000)) < 700
