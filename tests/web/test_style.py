"""The stylesheet, the icons and the script: contrast in both themes, their sizes, and that nothing is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidegate.labels import JOBS, TARGETS
from tidegate.web.pages import formatters, notices, render

CSS = (render.STATIC / "tidegate.css").read_text(encoding="utf-8")
SOURCES = Path(__file__).parents[2] / "src"
EVERY_RULE = "".join(path.read_text(encoding="utf-8") for path in SOURCES.glob("**/static/*.css"))
TEMPLATES = sorted(render.TEMPLATES.glob("*.html"))
TONES = ("good", "busy", "warn", "bad", "calm")
PAIRS = [
    *(("text", ground, 4.5) for ground in ("ground", "panel", "sunken", "accent-ground")),
    *(("quiet", ground, 4.5) for ground in ("ground", "panel", "sunken")),
    *(("accent", ground, 4.5) for ground in ("ground", "panel", "accent-ground")),
    ("on-accent", "accent", 4.5),
    ("on-bad", "bad", 4.5),
    *((tone, f"{tone}-ground", 4.5) for tone in TONES),
    *((tone, ground, 4.5) for tone in TONES for ground in ("ground", "panel")),
    *(("text", f"{tone}-ground", 4.5) for tone in TONES),
    # what only bounds a control, or marks the focus
    *(("edge", ground, 3.0) for ground in ("ground", "panel")),
]


def colours() -> dict[str, tuple[str, str]]:
    """Every colour by name: light, dark."""
    return {
        name: (light, dark)
        for name, light, dark in re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", CSS)
    }


def luminance(colour: str) -> float:
    """As WCAG 2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_computed_as_wcag_says() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("over", "under", "least"), PAIRS)
def test_text_can_be_read_in_both_themes(theme: str, over: str, under: str, least: float) -> None:
    at = ("light", "dark").index(theme)
    found = contrast(colours()[over][at], colours()[under][at])

    assert found >= least, f"{over} on {under} is {found:.2f}:1"


def test_colours_are_named_once_and_used_by_name() -> None:
    """A colour that is written into a rule would be left out of the check above."""
    _, _, rules = CSS.partition("/* -- ground")
    written = re.findall(r"#[0-9a-f]{3,6}\b", rules)

    assert written == []


def test_every_variable_that_is_used_is_declared() -> None:
    declared = set(re.findall(r"(--[a-z-]+):", CSS))

    assert set(re.findall(r"var\((--[a-z-]+)", CSS)) <= declared


def test_every_state_has_an_icon_and_a_tone_that_are_there() -> None:
    words = [*TARGETS.values(), *JOBS.values(), *formatters.OTHERS.values()]
    icons = {word.icon for word in words} | {icon for _, icon in formatters.NEEDS.values()}
    icons |= {icon for _, icon in notices.LEVELS.values()} | {row[1] for row in formatters.ROWS}
    tones = {word.tone for word in words} | {tone for tone, _ in formatters.NEEDS.values()}
    tones |= {tone for tone, _ in notices.LEVELS.values()} | {row[0] for row in formatters.ROWS}

    assert icons <= render.icons()
    assert tones <= set(TONES)
    assert all(f".{tone} {{" in CSS for tone in TONES)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_has_inline_style_or_script_or_anything_from_elsewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert not re.search(r"\sstyle\s*=|\son[a-z]+\s*=\s*[\"']|<style|javascript:", text)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))
    assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", text)
    assert "|safe" not in text


@pytest.mark.parametrize("path", sorted(SOURCES.glob("**/templates/*.html")), ids=lambda path: path.name)
def test_every_class_of_a_template_has_a_rule(path: Path) -> None:
    text = re.sub(r"{[{%#].*?[}%#]}", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    named = {word for classes in re.findall(r'class="([^"]*)"', text) for word in classes.split()}

    assert {word for word in named if not re.search(rf"\.{word}(?![\w-])", EVERY_RULE)} == set()


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_every_icon_that_a_template_names_is_in_the_sprite(path: Path) -> None:
    named = set(re.findall(r"icon\(\"([a-z]+)\"", path.read_text(encoding="utf-8")))

    assert named <= render.icons()


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("tidegate.css", 25_000),
        ("icons.svg", 8_000),
        ("tidegate.js", 4_000),
        ("favicon.svg", 1_000),
        ("live.css", 4_400),
        ("live.js", 9_000),
        ("refreshing.js", 6_000),
        ("toasts.js", 6_000),
        ("vendor/idiomorph.min.js", 11_000),
    ],
)
def test_what_every_page_loads_is_small(name: str, most: int) -> None:
    assert (render.STATIC / name).stat().st_size <= most
