"""Addresses of services in settings: one rule for all applications."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tidegate.apps import validate_url
from tidegate_apps.convert.settings import ConvertSettings as Convert
from tidegate_apps.feeds.settings import FeedsSettings as Feeds
from tidegate_apps.lidarr.settings import LidarrSettings as Lidarr

GIVE = "one such as http://weather:80"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", ""),
        ("http://weather", "http://weather"),
        (" https://weather.example:8443/base// ", "https://weather.example:8443/base"),
        ("http://[::1]:80/", "http://[::1]:80"),
    ],
)
def test_an_address_is_kept_without_a_slash_at_its_end(given: str, kept: str) -> None:
    assert validate_url(given, GIVE) == kept


@pytest.mark.parametrize(
    "given",
    ["weather:80", "ftp://weather", "http://", "http://weather?x=1", "http://weather#x", "http://weather:port", "//w",
     "http://weather:99999", "http://[::", "http://weather:0"],
)  # fmt: skip
def test_what_is_none_is_refused_with_what_to_give(given: str) -> None:
    with pytest.raises(ValueError, match="http://weather:80"):
        validate_url(given, GIVE)


@pytest.mark.parametrize("given", ["http://ann:hidden@weather", "http://hidden@weather", "http://@weather"])
def test_one_with_a_name_or_a_password_is_refused_where_pages_show_it(given: str) -> None:
    with pytest.raises(ValueError, match=r"one such as"):
        validate_url(given, GIVE)
    assert validate_url(given, GIVE, login=True) == given


def test_all_applications_hold_to_it() -> None:
    for model, name in ((Feeds, "source_manager_url"), (Lidarr, "base_url"), (Convert, "gateway_url")):
        assert getattr(model.model_validate({name: "http://there/"}), name) == "http://there"
        for wrong in ("there:80", "http://ann:hidden@there"):
            if (model, wrong) != (Convert, "http://ann:hidden@there"):  # which no page links to
                with pytest.raises(ValidationError):
                    model.model_validate({name: wrong})
