"""What is wrong with the settings, in lines for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, slots=True)
class SettingsProblem:
    """One mistake: where it stands, what is wrong, and what to give instead."""

    where: str  # "tidegate.toml: server.port", "TIDEGATE_SERVER_PORT", "--port"
    what: str

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}"  # names and values are what somebody wrote, line ends and all
        return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


class SettingsError(ValueError):
    """The settings cannot be used. `problems` has every mistake that was found, and the text a line for each."""

    def __init__(self, problems: Iterable[SettingsProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def meant(given: str, known: Iterable[str], otherwise: str = "", *, prefix: str = "") -> str:
    """'; did you mean ...?' when a known name is close, else *otherwise*. What all begin with makes none close."""
    names = [name.removeprefix(prefix) for name in known if name.startswith(prefix)]
    close = get_close_matches(given.removeprefix(prefix), names, n=1, cutoff=0.7)
    return f"; did you mean {prefix}{close[0]}?" if close else otherwise
