"""What became of the mutants, by file, and which of the survivors are explained."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

from tools import figures
from tools.mutants.making import Mutant

_KILLED = {"killed", "timeout"}


def read_explained(path: Path) -> dict[str, str]:
    """Why the survivors that are listed are no hole in the tests, by their names."""
    found: dict[str, str] = {}
    for each in tomllib.loads(path.read_text(encoding="utf-8")).get("survives", []):
        for new in [each["to"]] if isinstance(each["to"], str) else each["to"]:
            found[f"{each['in']}: {each['from']} -> {new}"] = each["why"]
    return found


class Report:
    """The figures of some mutants; what was not run counts as surviving."""

    def __init__(self, mutants: list[Mutant], results: dict[str, str], explained: dict[str, str]) -> None:
        self._mutants = mutants
        self._results = results
        self._explained = explained
        self.killed = [each for each in mutants if results.get(each.id) in _KILLED]
        alive = [each for each in mutants if results.get(each.id) not in _KILLED]
        self.explained = [each for each in alive if each.name in explained]
        self.unexplained = [each for each in alive if each.name not in explained]

    @property
    def share(self) -> float:
        """Percent of all that are killed; an explained survivor is none of them."""
        return 100 * len(self.killed) / max(1, len(self._mutants))

    @property
    def stale(self) -> list[str]:
        """What the list explains though no such mutant survives; asked of all mutants, not of some."""
        alive = {each.name for each in self.explained}
        return [name for name in self._explained if name not in alive]

    def lines(self) -> list[str]:
        every, killed, explained, left = (
            Counter(each.file for each in some)
            for some in (self._mutants, self.killed, self.explained, self.unexplained)
        )
        rows = [f"{'file':45}{'mutants':>8}{'killed':>8}{'percent':>9}{'explained':>11}{'unexplained':>13}"]
        for file in sorted(every):
            part = 100 * killed[file] / every[file]
            rows.append(f"{file:45}{every[file]:8}{killed[file]:8}{part:9.1f}{explained[file]:11}{left[file]:13}")
        total = (len(self._mutants), len(self.killed), self.share, len(self.explained), len(self.unexplained))
        rows.append("{:45}{:8}{:8}{:9.1f}{:11}{:13}".format("all", *total))
        how = {each.id: self._results.get(each.id, "not run") for each in self.unexplained}
        return [*(f"{each.name}   ({how[each.id]}, line {each.line})" for each in self.unexplained), "", *rows]

    def markdown(self) -> str:
        """The figures by folder, as a table of the documentation."""
        rows = []
        for folder in [*sorted({_folder(each) for each in self._mutants}), ""]:
            every, killed, explained, left = (
                sum(folder in {"", _folder(each)} for each in some)
                for some in (self._mutants, self.killed, self.explained, self.unexplained)
            )
            part = 100 * killed / max(1, every)
            rows.append((folder or "all", f"{every:,}", f"{killed:,} ({part:.1f} %)", explained, left))
        head = ["folder", "mutants", "killed", "survived, explained", "survived, unexplained"]
        return figures.table(head, rows)


def _folder(mutant: Mutant) -> str:
    return str(Path(mutant.file).parent)
