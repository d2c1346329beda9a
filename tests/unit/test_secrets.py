"""One key, and what is made from it."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from tidegate.secrets import BadSecret, Secrets

ONE, OTHER = Secrets("a" * 32), Secrets("b" * 32)


def test_a_signed_text_is_read_again_for_its_purpose_only() -> None:
    signed = ONE.sign("owner", "7 ünïcode.")
    assert ONE.read("owner", signed) == "7 ünïcode."
    assert ONE.read("session", signed) is None
    assert OTHER.read("owner", signed) is None


@pytest.mark.parametrize("broken", ["", ".", "x", "a.b", "%%.%%", "é.é", "YQ.YQ", "=" * 1000])
def test_a_signature_that_is_none_reads_as_nothing(broken: str) -> None:
    assert ONE.read("owner", broken) is None


def test_each_change_of_a_signed_text_is_seen() -> None:
    signed = ONE.sign("owner", "user 7")
    for at in range(len(signed)):
        other = "A" if signed[at] != "A" else "B"
        changed = signed[:at] + other + signed[at + 1 :]
        assert ONE.read("owner", changed) != "user 8"
        assert ONE.read("owner", changed) in (None, "user 7")  # the last letter of base64 has bits that say nothing


def test_what_is_encrypted_needs_the_key_and_the_purpose() -> None:
    kept = ONE.encrypt("spotify", "hunter2")
    assert "hunter2" not in kept
    assert kept != ONE.encrypt("spotify", "hunter2")
    assert ONE.decrypt("spotify", kept) == "hunter2"
    for secrets, purpose in ((ONE, "lidarr"), (OTHER, "spotify")):
        with pytest.raises(BadSecret, match="key"):
            secrets.decrypt(purpose, kept)


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "tidegate.key"
    first = Secrets.in_file(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Secrets.in_file(path).read("x", first.sign("x", "y")) == "y"


def test_servers_that_start_together_have_one_key(tmp_path: Path) -> None:
    path, signed = tmp_path / "tidegate.key", list[str]()
    start = threading.Barrier(8)

    def begin() -> None:
        start.wait()
        signed.append(Secrets.in_file(path).sign("x", "y"))

    every = [threading.Thread(target=begin) for _ in range(8)]
    for thread in every:
        thread.start()
    for thread in every:
        thread.join()
    assert signed == [Secrets.in_file(path).sign("x", "y")] * 8
    assert [each.name for each in tmp_path.iterdir()] == ["tidegate.key"]


def test_a_key_that_others_can_read_is_refused_with_the_command_that_helps(tmp_path: Path) -> None:
    path = tmp_path / "tidegate.key"
    path.write_text("a" * 64)
    path.chmod(0o644)
    with pytest.raises(BadSecret, match=r"chmod 600 tidegate\.key"):
        Secrets.in_file(path)


def test_a_short_key_is_refused_and_none_is_shown() -> None:
    with pytest.raises(BadSecret, match=r"5 .*32") as caught:
        Secrets("short")
    assert "'short'" not in str(caught.value)
    assert repr(ONE) == "<Secrets>"


def test_a_file_of_bytes_is_refused_with_what_to_give(tmp_path: Path) -> None:
    path = tmp_path / "tidegate.key"
    path.write_bytes(b"\xff" * 32)
    path.chmod(0o600)

    with pytest.raises(BadSecret, match=r"^secret_key_file: tidegate\.key"):
        Secrets.in_file(path)


def test_a_file_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadSecret, match=r"tidegate\.key .*\(No such file"):
        Secrets.in_file(tmp_path / "nowhere" / "tidegate.key")


def test_a_former_key_reads_what_it_made_and_makes_nothing_new(tmp_path: Path) -> None:
    path = tmp_path / "tidegate.key"
    path.write_text(f"{'n' * 32}\n\n{'a' * 32}\n")
    path.chmod(0o600)
    both = Secrets.in_file(path)
    assert both.read("x", ONE.sign("x", "old")) == "old"
    assert both.decrypt("x", ONE.encrypt("x", "old")) == "old"
    assert ONE.read("x", both.sign("x", "new")) is None
    assert Secrets("n" * 32).read("x", both.sign("x", "new")) == "new"
    assert Secrets("n" * 32).decrypt("x", both.encrypt("x", "new")) == "new"
    assert both.read("x", OTHER.sign("x", "foreign")) is None
