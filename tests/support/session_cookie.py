import httpx


def session_cookie(http: httpx.AsyncClient | httpx.Client) -> str:
    """Return the cookie of a client's session as browsers send it; ``KeyError`` if it has none."""
    for cookie in http.cookies.jar:
        if cookie.name.removeprefix("__Host-").startswith("hookgw_session_"):
            return f"{cookie.name}={cookie.value}"
    raise KeyError("hookgw_session")
