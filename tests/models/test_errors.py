"""The errors: the status that each becomes, and what is read in it."""

import pytest

from hookgw import HookgwError, NetworkRefused, Unavailable
from hookgw.kernel import errors
from tests.public.kernel import PluginFailed, StorageUnavailable

STATUS = {
    "HookgwError": 500,
    "Invalid": 400,
    "WrongFields": 400,
    "EventLeftOut": 400,
    "Unauthorized": 401,
    "Forbidden": 403,
    "ForeignKey": 403,
    "NotFound": 404,
    "Conflict": 409,
    "TooManyKeys": 409,
    "TooLarge": 413,
    "KeyReused": 422,
    "UnsupportedContentEncoding": 415,
    "UnsupportedContentType": 415,
    "Expired": 410,
    "TooManyRequests": 429,
    "NetworkRefused": 502,
    "NotSupported": 501,
    "ProofRefused": 401,
    "Unavailable": 503,
    "StorageUnavailable": 503,
    "StorageLost": 503,
    "LaneElsewhere": 503,
    "StartError": 500,
    "ConfigError": 500,
    "PluginFailed": 500,
    "PluginMissing": 500,
}


def test_every_error_has_its_status() -> None:
    found = {
        name: int(error.status)
        for name, error in vars(errors).items()
        if isinstance(error, type) and issubclass(error, HookgwError)
    }
    assert found == STATUS


@pytest.mark.parametrize(
    "name",
    sorted(
        STATUS.keys()
        - {"PluginFailed", "PluginMissing", "TooManyRequests", "NetworkRefused", "LaneElsewhere"}
    ),
)
def test_an_error_keeps_its_sentences_apart_and_reads_as_one_text(name: str) -> None:
    error = getattr(errors, name)("First.", "Second.")
    assert error.messages == ("First.", "Second.")
    assert str(error) == "First. Second."
    assert isinstance(error, HookgwError)


def test_an_error_without_a_sentence_says_its_status() -> None:
    assert str(errors.NotFound()) == "Not Found"
    assert errors.NotFound().messages == ("Not Found",)


def test_an_unavailable_store_says_when_to_try_again() -> None:
    assert Unavailable("Full.").retry_after == 5.0
    assert StorageUnavailable("Full.", retry_after=30.0).retry_after == 30.0


@pytest.mark.parametrize(
    ("status", "taken"),
    [
        (429, 429),
        (403, 403),
        (404, 404),
        (503, 503),
        (401, 502),
        (407, 502),
        (200, 502),
        (302, 502),
        (999, 502),
    ],
)
def test_a_network_chooses_a_status_that_says_nothing_of_the_callers_key(status: int, taken: int) -> None:
    error = NetworkRefused("Too fast.", code="M_LIMIT_EXCEEDED", status=status, retry_after=2.0)
    assert (error.status, error.code, error.retry_after) == (taken, "M_LIMIT_EXCEEDED", 2.0)


def test_a_failed_plugin_is_named_with_its_hook_and_reason() -> None:
    error = PluginFailed("filters", "hookgw_filter", "ValueError: no")
    assert (error.plugin, error.hook, error.reason) == ("filters", "hookgw_filter", "ValueError: no")
    assert str(error) == "Plugin 'filters' failed in hookgw_filter: ValueError: no"
