"""Checks that names, comments and docstrings use the field's terms: ``python -m tools.words``, part of ``make check``.

tools/words.txt lists words to avoid with the term to use instead, in three sections:

parts
    Parts of an identifier. ``MOST_HELD``, ``MostHeld`` and ``most_held`` are all compared as ``most_held``.
names
    Whole identifiers without leading underscores. Upper and lower case differ.
prose
    Words and phrases in comments and docstrings, in either case.

tools/words_baseline.toml says how often each word is still there, and which names of classes two modules define. A
count may only shrink: the check fails above it, and when it is raised against the committed file. ``--shrink`` writes
the lower counts. In a merge, and on its commit until it is amended, it writes all counts: both sides may have used a
word once. ``--list WORD`` prints every use of a word.

Read are the Python files, statements, templates, styles and scripts of `FOLDERS`. Text in string literals is not: it is
data, or users read it and tests/wording has it.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.house import doubled_classes, read_modules
from tools.requirements import git

FOLDERS = ("src",)
LIST = "tools/words.txt"
BASELINE = "tools/words_baseline.toml"
SECTIONS = ("parts", "names", "prose")
MAX_SHOWN = 20  # uses of one word, where git does not know which are new

ENTRY = re.compile(r"^(?P<word>.+?) -> (?P<term>.+?)(?: ; except (?P<fine>.+))?$")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# What each kind of file has: prose, what is skipped (strings, text of pages), and identifiers.
_STRING = r"""(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
_PREFIX = r"(?:\b[rbfuRBFU]{1,2})?"
_NAME = r"(?P<name>[A-Za-z_]\w*)"
_BLOCK = r"/\*.*?\*/"
SYNTAX = {
    suffix: re.compile(pattern, re.DOTALL | re.MULTILINE)
    for suffix, pattern in {
        ".py": rf'(?P<prose>^[ \t]*[rR]?""".*?"""|\#[^\n]*)|{_PREFIX}(?:""".*?"""|{_STRING})|{_NAME}',
        ".sql": rf"(?P<prose>--[^\n]*|{_BLOCK})|'[^']*'|{_NAME}",
        ".css": rf"(?P<prose>{_BLOCK})|{_STRING}|(?P<name>[A-Za-z_][\w-]*)",
        ".js": rf"(?P<prose>{_BLOCK}|(?<!:)//[^\n]*)|{_STRING}|{_NAME}",
        ".html": r"(?P<prose>\{#.*?#\}|<!--.*?-->)|(?P<code>\{\{.*?\}\}|\{%.*?%\})"
        r'|(?P<attribute>\b(?:class|id)="[^"{]*")',
    }.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """An entry of the list. `fine` matches uses that are allowed."""

    section: str
    word: str
    term: str
    pattern: re.Pattern[str]
    fine: re.Pattern[str] | None

    def uses(self, text: str) -> Iterator[re.Match[str]]:
        """The uses of the word in *text*, without the exceptions."""
        for match in self.pattern.finditer(text):
            spans = self.fine.finditer(text) if self.fine else ()
            if not any(span.start() <= match.start() and match.end() <= span.end() for span in spans):
                yield match


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    path: str
    line: int
    word: Word
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text!r}; use: {self.word.term}"


@dataclass(slots=True)
class Baseline:
    """Section -> word -> how often it may be there, and the class names that may be doubled."""

    counts: dict[str, dict[str, int]] = field(default_factory=lambda: {section: {} for section in SECTIONS})
    doubled: list[str] = field(default_factory=list)


def read_words(text: str) -> list[Word]:
    """The entries of the list; raises ValueError for a line that is not one, and for a word that is listed twice."""
    words: dict[tuple[str, str], Word] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        bare = re.sub(r"(^|\s)#.*", "", line).strip()
        entry = ENTRY.match(bare)
        if bare.startswith("[") and bare.strip("[]") in SECTIONS:
            section = bare.strip("[]")
        elif bare and (entry is None or not section or (section, entry["word"]) in words):
            raise ValueError(f"{LIST}:{number}: not `word -> term` in a section, or listed twice: {line}")
        elif entry is not None:
            words[section, entry["word"]] = _compiled(section, entry["word"], entry["term"], entry["fine"])
    return list(words.values())


def _compiled(section: str, word: str, term: str, fine: str | None) -> Word:
    # Identifiers are compared as `most_held`; prose may break a phrase at the end of a line.
    before, after = {"parts": ("(?:^|(?<=_))", "(?=_|$)"), "names": ("^", "$"), "prose": (r"\b", r"\b")}[section]
    flags = re.IGNORECASE if section == "prose" else 0
    source = f"{before}(?:{word}){after}".replace(" ", r"[\s#]+")
    exception = None if fine is None else re.compile(fine.replace(" ", r"[\s#]+"), flags)
    return Word(section=section, word=word, term=term, pattern=re.compile(source, flags), fine=exception)


def as_parts(identifier: str) -> str:
    """`MostHeld`, `MOST_HELD` and `_most_held` as `most_held`."""
    return "_".join(PART.findall(identifier)).lower()


class Reader:
    """Finds the uses of the listed words in files."""

    def __init__(self, words: list[Word]) -> None:
        self._words = {section: [word for word in words if word.section == section] for section in SECTIONS}
        # Most names and comments have none of the words, and one search says so.
        self._any = {section: _any_of(found) for section, found in self._words.items()}
        self._of_name: dict[str, list[Word]] = {}

    def uses(self, path: str, text: str) -> Iterator[Use]:
        ends = [match.start() for match in re.finditer("\n", text)]
        for position, word, shown in self._found(Path(path).suffix, text, 0):
            yield Use(path=path, line=bisect_left(ends, position) + 1, word=word, text=" ".join(shown.split()))

    def _found(self, suffix: str, text: str, offset: int) -> Iterator[tuple[int, Word, str]]:
        for token in SYNTAX[suffix].finditer(text):
            start = offset + token.start()
            if token.lastgroup == "name":
                yield from ((start, word, token[0]) for word in self._in_name(token[0]))
            elif token.lastgroup == "code":
                yield from self._found(".py", token[0], start)
            elif token.lastgroup == "attribute":
                yield from self._found(".css", token[0].replace('"', " "), start)
            elif token.lastgroup == "prose" and self._any["prose"].search(token[0]):
                for word in self._words["prose"]:
                    yield from ((start + match.start(), word, match[0]) for match in word.uses(token[0]))

    def _in_name(self, name: str) -> list[Word]:
        """The words in an identifier; one that is listed as a whole is not taken apart."""
        if name not in self._of_name:
            found: list[Word] = []
            for section, text in (("names", name.lstrip("_")), ("parts", as_parts(name))):
                if not found and self._any[section].search(text):
                    found = [word for word in self._words[section] for _ in word.uses(text)]
            self._of_name[name] = found
        return self._of_name[name]


def _any_of(words: list[Word]) -> re.Pattern[str]:
    source = "|".join(word.pattern.pattern for word in words)
    return re.compile(source or "(?!)", words[0].pattern.flags if words else 0)


def all_uses(root: Path, words: list[Word]) -> Iterator[Use]:
    reader = Reader(words)
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SYNTAX and "vendor" not in path.parts:
                yield from reader.uses(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))


def read_baseline(text: str) -> Baseline:
    data = tomllib.loads(text)
    return Baseline({section: dict(data.get(section, {})) for section in SECTIONS}, list(data.get("doubled", [])))


def write_baseline(baseline: Baseline) -> str:
    lines = ["# How often each word of words.txt is still there, and the class names that two modules define.", ""]
    lines += ["doubled = [", *(f'    "{name}",' for name in baseline.doubled), "]"]
    for section in SECTIONS:
        lines += ["", f"[{section}]", *(f"'{word}' = {count}" for word, count in baseline.counts[section].items())]
    return "\n".join(lines) + "\n"


def counted(uses: list[Use], doubled: Iterable[str]) -> Baseline:
    """What is there now; words that are not used are left out."""
    counts: dict[str, dict[str, int]] = {section: {} for section in SECTIONS}
    for (section, word), count in Counter((use.word.section, use.word.word) for use in uses).items():
        counts[section][word] = count
    return Baseline(counts, sorted(doubled))


def above(now: Baseline, allowed: Baseline) -> Iterator[tuple[str, str, int, int]]:
    """Section, word, count and allowed count of the words that are used more than allowed."""
    for section in SECTIONS:
        for word, count in now.counts[section].items():
            limit = allowed.counts[section].get(word, 0)
            if count > limit:
                yield section, word, count, limit


def raised(before: Baseline, listed: list[Word], allowed: Baseline) -> Iterator[str]:
    """What a baseline allows more than an earlier one, which came with this list; new words may begin anywhere."""
    known = {(word.section, word.word) for word in listed}
    for section, word, count, limit in above(allowed, before):
        if (section, word) in known:
            yield f"{BASELINE}: {section} {word!r} was raised from {limit} to {count}"
    for name in allowed.doubled:
        if name not in before.doubled:
            yield f"{BASELINE}: the doubled class {name} was added"


def shrunk(now: Baseline, allowed: Baseline, committed: list[Word]) -> Baseline:
    """The allowed counts, lowered to what is there; a word that was not listed before gets its first count."""
    known = {(word.section, word.word) for word in committed}
    lower = Baseline(doubled=[name for name in now.doubled if name in allowed.doubled or not committed])
    for section in SECTIONS:
        for word, count in sorted(now.counts[section].items()):
            limit = allowed.counts[section].get(word, 0 if (section, word) in known else count)
            if limit:
                lower.counts[section][word] = min(count, limit)
    return lower


def added_lines(root: Path, since: str) -> dict[str, set[int]]:
    """Path -> lines that were added or changed after a commit, or are not committed."""
    lines: dict[str, set[int]] = {}
    path = ""
    for line in (
        git(root, "diff", "--unified=0", "--no-color", "--no-ext-diff", since, "--", *FOLDERS) or ""
    ).splitlines():
        if line.startswith("+++ "):
            path = line[4:].removeprefix("b/")
        elif hunk := re.match(r"@@ \S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines.setdefault(path, set()).update(range(first, first + count))
    for name in (git(root, "ls-files", "--others", "--exclude-standard", "--", *FOLDERS) or "").splitlines():
        lines[name] = set(range(1, (root / name).read_bytes().count(b"\n") + 2))
    return lines


def in_merge(root: Path) -> bool:
    """Whether a merge is under way or was just committed, and may be amended."""
    head = git(root, "rev-list", "--parents", "--max-count=1", "HEAD") or ""
    return len(head.split()) > 2 or git(root, "rev-parse", "--quiet", "--verify", "MERGE_HEAD") is not None


def problems(root: Path, uses: list[Use], doubled: Mapping[str, list[str]], allowed: Baseline) -> Iterator[str]:
    # Nothing before a merge that wrote the baseline says what both sides together may have.
    log = (git(root, "log", "-2", "--format=%H %P", "--", BASELINE) or "").splitlines()
    commits = [line.split()[0] for line in (log[:1] if log and len(log[0].split()) > 2 else log)]
    over = list(above(counted(uses, doubled), allowed))
    # A count grows by lines that were added after the baseline was written.
    added = added_lines(root, commits[0]) if over and commits else {}
    for section, word, count, limit in over:
        of_word = [use for use in uses if (use.word.section, use.word.word) == (section, word)]
        new = [use for use in of_word if use.line in added.get(use.path, ())]
        yield from map(str, new or of_word[:MAX_SHOWN])
        yield f"{BASELINE}: {section} {word!r} has {count} uses, {limit} are allowed"
    for name, modules in doubled.items():
        if name not in allowed.doubled:
            yield f"class {name} is defined in {' and '.join(modules)}; one class name has one meaning"
    for commit in () if in_merge(root) else commits:
        before, listed = (git(root, "show", f"{commit}:{name}") or "" for name in (BASELINE, LIST))
        yield from raised(read_baseline(before), read_words(listed), allowed)


def main(argv: list[str], root: Path | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.words")
    parser.add_argument("--shrink", action="store_true", help="write the counts that are lower than the baseline's")
    parser.add_argument("--list", metavar="WORD", help="print every use of the entry with WORD")
    options = parser.parse_args(argv)
    root = root or Path()
    uses = list(all_uses(root, read_words((root / LIST).read_text(encoding="utf-8"))))
    if options.list:
        print("\n".join(str(use) for use in uses if options.list in use.word.word.split("|")))
        return 0
    doubled = doubled_classes(module for folder in FOLDERS for module in read_modules(root / folder).values())
    file = root / BASELINE
    allowed = read_baseline(file.read_text(encoding="utf-8")) if file.exists() else Baseline()
    if options.shrink:
        now = counted(uses, doubled)
        committed = read_words(git(root, "show", f"HEAD:{LIST}") or "")
        allowed = shrunk(now, now if in_merge(root) else allowed, committed)
        file.write_text(write_baseline(allowed), encoding="utf-8")
    found = list(dict.fromkeys(problems(root, uses, doubled, allowed)))
    print("".join(f"{problem}\n" for problem in found), end="")
    print(f"words: {len(uses)} uses of listed words, {len(doubled)} doubled class names, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
