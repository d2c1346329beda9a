"""SVG elements escape text, and scales map values to coordinates."""

from __future__ import annotations

import pytest
from markupsafe import escape

from tidegate.svg import TIME_STEPS, LinearScale, Svg, element, group, path, stretched


def test_text_and_attributes_are_escaped_and_elements_are_not() -> None:
    shape = element("text", '<b> & "c"', class_='"><script>', font_size=12, rx=None)

    assert shape == '<text class="&quot;&gt;&lt;script&gt;" font-size="12">&lt;b&gt; &amp; "c"</text>'
    assert group(shape, title="1 < 2") == f"<g><title>1 &lt; 2</title>{shape}</g>"


def test_a_template_inserts_it_as_it_is() -> None:
    assert escape(element("g", "&")) == "<g>&amp;</g>"
    assert escape(Svg("<g/>")) == "<g/>"


def test_coordinates_have_one_decimal_place_and_a_path_without_moves_is_left_out() -> None:
    assert element("rect", x=1.0, y=2.26) == '<rect x="1" y="2.3"/>'
    assert path("line", "") == ""


def test_a_picture_has_a_label_or_is_hidden_from_screen_readers() -> None:
    assert 'role="img" aria-label="Plays"' in stretched("picture", 100, 4, [], "Plays")
    hidden = stretched("picture", 100, 4, [], None)
    assert 'aria-hidden="true"' in hidden
    assert "role" not in hidden


@pytest.mark.parametrize(("value", "y"), [(0, 100), (50, 75), (200, 0), (900, 0), (-1, 100)])
def test_a_scale_maps_values_and_clamps_those_outside(value: float, y: float) -> None:
    assert LinearScale(0, 200, 100, 0)(value) == y


def test_a_scale_without_extent_maps_to_its_start() -> None:
    assert LinearScale(5, 5, 0, 100)(5) == 0


@pytest.mark.parametrize(("seconds", "step", "count"), [(10, 1, 11), (3600, 300, 13), (86400, 7200, 13), (0.5, 1, 1)])
def test_an_axis_has_up_to_twelve_intervals(seconds: float, step: float, count: int) -> None:
    assert LinearScale(0, seconds, 0, 100).ticks(TIME_STEPS) == [step * index for index in range(count)]
