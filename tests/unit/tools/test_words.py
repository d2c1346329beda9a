from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tools import words
from tools.words import Baseline, Reader, as_parts, raised, read_baseline, read_words, shrunk, write_baseline

ROOT = Path(__file__).parents[3]
LIST = """
# A comment.
[parts]  # of identifiers
most -> max_, limit ; except most_(recent|common)
in_a_row -> consecutive
[names]
each -> the noun
Turn|Turns -> FetchResult
[prose]
whoever -> the caller
at most -> up to
stands? -> is ; except stands for
"""


def uses(text: str, path: str = "src/a.py", listed: str = LIST) -> list[tuple[int, str]]:
    return [(use.line, use.text) for use in Reader(read_words(listed)).uses(path, text)]


def test_an_entry_has_a_word_a_term_and_perhaps_an_exception() -> None:
    entries = [(word.section, word.word, word.term, word.fine is not None) for word in read_words(LIST)]

    assert entries == [
        ("parts", "most", "max_, limit", True),
        ("parts", "in_a_row", "consecutive", False),
        ("names", "each", "the noun", False),
        ("names", "Turn|Turns", "FetchResult", False),
        ("prose", "whoever", "the caller", False),
        ("prose", "at most", "up to", False),
        ("prose", "stands?", "is", True),
    ]


@pytest.mark.parametrize("text", ["most -> max", "[parts]\nmost", "[other]\nmost -> max", "[parts]\na -> b\na -> c"])
def test_a_line_that_is_no_entry_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=words.LIST):
        read_words(text)


@pytest.mark.parametrize("name", ["most_held", "MOST_HELD", "_MOST", "MostHeld", "the_most", "HTTPMost2", "mostHeld"])
def test_a_part_is_found_in_every_spelling(name: str) -> None:
    assert uses(f"{name} = 1") == [(1, name)]


@pytest.mark.parametrize("name", ["almost", "mostly", "most_recent", "MostRecent", "_most_common_codes"])
def test_longer_words_and_exceptions_are_fine(name: str) -> None:
    assert uses(f"{name} = 1") == []


def test_a_phrase_of_parts_is_found_as_a_whole() -> None:
    assert uses("failed_in_a_row = in_row = 1") == [(1, "failed_in_a_row")]


@pytest.mark.parametrize(
    ("name", "found"), [("each", 1), ("_each", 1), ("each_job", 0), ("Turns", 1), ("turns", 0), ("GateTurn", 0)]
)
def test_a_name_is_compared_as_a_whole_and_with_its_case(name: str, found: int) -> None:
    assert len(uses(f"{name} = 1")) == found


def test_a_name_that_is_listed_as_a_whole_is_not_taken_apart() -> None:
    listed = read_words("[parts]\ntold -> notified\n[names]\nTold -> SentNotice")

    assert [use.word.section for use in Reader(listed).uses("a.py", "Told")] == ["names"]


def test_the_prose_of_python_is_its_comments_and_docstrings() -> None:
    text = '''"""Whoever calls.

Takes at
most three; this stands
for it."""
text = "whoever each most"  # whoever reads
data = f"""whoever"""
def f():
    """It stands."""
    return 'it\\'s # whoever'
'''
    assert uses(text) == [(1, "Whoever"), (3, "at most"), (6, "whoever"), (9, "stands")]


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        (
            "a.sql",
            "-- whoever\nselect most, 'most' from t /* at most */;",
            [(1, "whoever"), (2, "most"), (2, "at most")],
        ),
        ("a.css", "/* whoever */\n.most-held { content: 'most' }", [(1, "whoever"), (2, "most-held")]),
        ("a.js", "// whoever\nconst most = 'most'; // at most", [(1, "whoever"), (2, "most"), (2, "at most")]),
        (
            "a.html",
            '{# whoever #}<p class="row most">most</p>\n{{ job.most }} {% for each in jobs %}{{ "most" }}',
            [(1, "whoever"), (1, "most"), (2, "most"), (2, "each")],
        ),
    ],
)
def test_other_files_have_names_and_comments_too(path: str, text: str, found: list[tuple[int, str]]) -> None:
    assert uses(text, path) == found


def test_an_identifier_is_compared_in_one_spelling() -> None:
    names = ["mostHeld", "MOST_HELD", "__most_held", "HTTPServer2", "x"]

    assert [as_parts(name) for name in names] == ["most_held", "most_held", "most_held", "http_server_2", "x"]


def baseline(doubled: tuple[str, ...] = (), **parts: int) -> Baseline:
    return Baseline({"parts": parts, "names": {}, "prose": {}}, list(doubled))


def test_a_baseline_is_written_as_it_is_read() -> None:
    whole = Baseline({"parts": {"most": 3}, "names": {r"\w+Shown|Turn": 1}, "prose": {"at most": 2}}, ["Row"])

    assert read_baseline(write_baseline(whole)) == whole


def test_counts_shrink_and_never_grow() -> None:
    listed = read_words("[parts]\nmost -> max\ntold -> notified\ndone -> finished\n")
    now, allowed = baseline(("A", "C"), most=2, told=9, done=3, new=4), baseline(("A", "B"), most=5, told=7, gone=1)

    assert shrunk(now, allowed, listed) == baseline(("A",), most=2, told=7, new=4)


def test_a_baseline_may_only_begin_with_words_that_were_not_listed() -> None:
    listed = read_words("[parts]\nmost -> max\ntold -> notified\ndone -> finished\n")
    before, after = baseline(("A",), most=5, told=1), baseline(("A", "B"), most=4, told=2, done=1, new=8)

    # `done` had no use when it was listed.
    assert [re.findall(r"'(\w+)'|class (\w+)", line) for line in raised(before, listed, after)] == [
        [("told", "")],
        [("done", "")],
        [("", "B")],
    ]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src" / "vendor").mkdir(parents=True)
    (tmp_path / "tools").mkdir()
    (tmp_path / words.LIST).write_text(LIST)
    (tmp_path / "src" / "a.py").write_text("most = 1\n\nclass Row: ...\n")
    (tmp_path / "src" / "b.py").write_text("first = 1\n\nclass Row: ...\n")
    (tmp_path / "src" / "vendor" / "c.js").write_text("most = 1")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert words.main(["--shrink"], tmp_path) == 0
    commit(tmp_path)
    return tmp_path


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "m")


def git(root: Path, *arguments: str) -> None:
    settings = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(root), *settings, *arguments], check=True)


def run(root: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    """The exit code, and where each problem is."""
    capsys.readouterr()
    code = words.main([*arguments], root)
    return code, [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()]


def test_what_the_baseline_allows_passes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(project, capsys) == (0, ["words"])
    assert read_baseline((project / words.BASELINE).read_text()) == baseline(("Row",), most=1)


@pytest.mark.parametrize("committed", [True, False])
def test_a_new_use_of_a_word_fails_where_it_was_added(
    project: Path, capsys: pytest.CaptureFixture[str], committed: bool
) -> None:
    (project / "src" / "b.py").write_text("first = 1\nmost_held = 2\n\nclass Row: ...\n")
    if committed:
        commit(project)

    assert run(project, capsys) == (1, ["src/b.py:2", words.BASELINE, "words"])


def test_a_new_file_is_read_before_git_knows_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "src" / "new.py").write_text("\nmost = 1\n")

    assert run(project, capsys) == (1, ["src/new.py:2", words.BASELINE, "words"])


def test_a_use_says_which_term_to_use(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words.main(["--list", "most"], project)

    assert capsys.readouterr().out.splitlines() == ["src/a.py:1: 'most'; use: max_, limit"]


def test_a_class_name_of_two_modules_fails(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "src" / "c.py").write_text("class Row: ...\nclass Job: ...\n")
    assert run(project, capsys) == (0, ["words"])
    (project / "src" / "d.py").write_text("class Job: ...\n")

    code, (problem, _) = run(project, capsys)
    assert code == 1
    assert re.findall(r"class (\w+).* (\w+) and (\w+);", problem) == [("Job", "c", "d")]


def test_a_baseline_that_was_raised_fails_even_when_it_is_committed(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "src" / "b.py").write_text("most_held = 2\n\nclass Row: ...\n")
    file = project / words.BASELINE
    file.write_text(file.read_text().replace("'most' = 1", "'most' = 2"))
    assert run(project, capsys) == (1, [words.BASELINE, "words"])
    commit(project)

    assert run(project, capsys) == (1, [words.BASELINE, "words"])


def test_shrinking_does_not_allow_a_new_use(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "src" / "b.py").write_text("most_held = 2\n\nclass Row: ...\n")

    assert run(project, capsys, "--shrink") == (1, ["src/b.py:1", words.BASELINE, "words"])
    (project / "src" / "a.py").write_text("")
    (project / "src" / "b.py").write_text("")
    assert run(project, capsys, "--shrink") == (0, ["words"])
    assert read_baseline((project / words.BASELINE).read_text()) == Baseline()


def test_a_merge_may_raise_a_count_and_no_other_commit(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git(project, "branch", "other", "HEAD")
    (project / "src" / "a.py").write_text("class Row: ...\n")
    assert run(project, capsys, "--shrink")[0] == 0
    commit(project)
    git(project, "checkout", "-q", "other")
    (project / "src" / "new.py").write_text("most = most_held = 2\n")
    commit(project)
    git(project, "merge", "-q", "--no-edit", "--no-commit", "-")
    assert run(project, capsys)[0] == 1

    assert run(project, capsys, "--shrink")[0] == 0
    commit(project)
    assert run(project, capsys)[0] == 0
    (project / "src" / "b.py").write_text("first = 1\n")
    commit(project)
    assert run(project, capsys)[0] == 0
    (project / "src" / "b.py").write_text("first = 1  # Whoever.\n")
    assert run(project, capsys, "--shrink")[0] == 1


def test_no_term_of_the_list_is_itself_to_be_avoided() -> None:
    listed = read_words((ROOT / words.LIST).read_text())
    reader = Reader(listed)

    assert [(word.word, use.text) for word in listed for use in reader.uses("term.py", word.term)] == []


def test_the_baseline_has_only_words_of_the_list() -> None:
    listed = {(word.section, word.word) for word in read_words((ROOT / words.LIST).read_text())}
    counts = read_baseline((ROOT / words.BASELINE).read_text()).counts

    assert {(section, word) for section in counts for word in counts[section]} <= listed
