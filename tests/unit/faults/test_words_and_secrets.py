"""What is read out of a message, and what is left of one: whole texts, before and after."""

from __future__ import annotations

import pytest

from tidegate.faults.heuristics import LASTFM_CODES, MAX_READ, WORDS, code_in, lastfm_in, status_in
from tidegate.faults.redaction import redact


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("timeout", "timeout"), ("timeouts", None), ("timeouts!", None), ("timeout s", "timeout"), ("timeout1", None),
        ("1timeout", None), ("a timeout", "timeout"), ("a! timeout.", "timeout"), ("xtimeout timeoutx", None),
        ("xtimeout timeoutx timeout", "timeout"), ("_timeout_", "timeout"), ("timeout\u00e4", None),
        ("\u00e4timeout", None),
        ("timeout xtimeout", "timeout"), ("xtimeout timeout xtimeout", "timeout"), ("TimeOut", "timeout"),
        ("", None), ("rate limited", "rate limited"), ("forbidden: timed out", "forbidden"),
    ],
)  # fmt: skip
def test_a_word_counts_where_no_letter_and_no_digit_touches_it(text: str, found: str | None) -> None:
    said = code_in(text)

    assert (said and said[1]) == found
    assert said is None or said[1] in dict(WORDS)[said[0]]


def test_a_message_is_read_so_far_and_no_further() -> None:
    lastfm = '<lfm><error code="9"'
    assert (MAX_READ, len(lastfm)) == (4096, 20)
    for reads, text, end in (
        (status_in, " HTTP status 404 ", 16),
        (code_in, " bad gateway ", 12),
        (lastfm_in, lastfm, 19),
    ):
        assert reads("x" * (MAX_READ - end) + text)
        assert not reads("x" * (MAX_READ - end + 1) + text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ('<lfm status="failed"><error code="29">', 29), ("<lfm><error code='9'>", 9), ("<lfm>\n <error  code = 4 >", 4),
        ('<lfm><error code=\\"11\\">', 11), ('<LFM><error code="29">', 0), ('<lfm><ERROR CODE="29">', 29),
        ('<lfm><error code="1">', 0), ('<lfm><error code="999">', 0), ('<lfm><error code="2900">', 0),
        ('<lfm><ok code="29">', 0), ('<lfmx><error code="29">', 0), ('<error code="29">', 0), ("", 0),
        (r'<lfm>\r\n<error code="29">', 29), ("<lfm" + "x" * 9 + '><error code="29">', 0),
    ],
)  # fmt: skip
def test_a_number_of_lastfm_is_read_as_people_quote_it(text: str, number: int) -> None:
    assert lastfm_in(text) == number
    assert number == 0 or number in LASTFM_CODES


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("HTTP 404", 404), ("HTTP/1.1 503 x", 503), ("http error: 500", 500), ("status='429'", 429),
        ("too many 302 error responses", 302), ("404 NOT FOUND", 404), ("got 500", 500), ("got an error 500", 500),
        ("responded with http 502, again", 502), ("returned 500 rows", 0), ("returned 302", 0), ("HTTP 200", 0),
        ("HTTP 600", 0), ("xhttp 404", 0), ("status   404", 404), ("status    404", 0),
        ("http 404, then http 500", 404),
        ("\u7b54\u3048\u306fHTTP 503\u3067\u3059", 503),  # "the answer is HTTP 503", in a language without spaces
        ("HTTP \uff14\uff10\uff14", 0), ("504 gateway time-out", 504), ("504 Gateway Timeout", 504),
    ],
)  # fmt: skip
def test_a_status_is_read_as_people_write_it(text: str, status: int) -> None:
    assert status_in(text) == status


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("token=abc", "token=***"),
        ("TOKEN=abc&page=2", "TOKEN=***&page=2"),
        ("a token: abc, and b", "a token: *** and b"),
        ("token=abc secret=def end", "token=*** secret=*** end"),
        ('{"api_key": "a b", "page": 2}', '{"api_key": ***, "page": 2}'),
        ("{'password': 'it\\'s', 'page': 2}", "{'password': ***, 'page': 2}"),
        ("{'token': 'a\\\nhunter2', 'page': 2}", "{'token': ***, 'page': 2}"),
        ("{'u': 'a\\\nhunter2', 'page': 2}", "{'u': ***, 'page': 2}"),
        ("[('sk', 'abc')]", "[('sk', ***)]"),
        ("Authorization: Bearer abc def\r\nAccept: x", "Authorization: *** Accept: x"),
        ("Cookie: a=b; c=d", "Cookie: ***"),
        ("cookie and Authorization=x y\nnext", "cookie and Authorization=*** next"),
        ("GET /?u=joe&t=abc&s=def&v=1", "GET /?u=***&t=***&s=***&v=1"),
        ("u=joe", "u=***"),
        ("menu=joe", "menu=joe"),
        ("code=abc;code=def", "code=***"),
        ("bearer abcdef!", "bearer ***!"),
        ("BASIC abcdef", "BASIC ***"),
        ("Basic abcde", "Basic abcde"),
        ("Bearer abcdefg and bearer tuvwxyz", "Bearer *** and bearer ***"),
        ("https://joe:pw@host/a?b#c", "https://***@host/a?b#c"),
        ("https://host/a@b", "https://host/a@b"),
        ("it is sk-12345678 or eyJ12345678.", "it is *** or ***"),
        ("it is sk-1234567", "it is sk-1234567"),
        ("\u0130 TOKEN=abc end", "\u0130 TOKEN=*** end"),
        ("a\u00a0b", "a b"),
        ("a\u200bb", "a b"),
        ("a  b", "a  b"),
        (" a \n  b ", "a b"),
        ("", ""),
    ],
)
def test_a_secret_becomes_three_stars_and_all_else_stays(text: str, left: str) -> None:
    assert redact(text) == left


@pytest.mark.parametrize(
    ("text", "most", "left"),
    [
        ("x" * 10, 10, "x" * 10),
        ("x" * 11, 10, "x" * 9 + "\u2026"),
        ("token=" + "x" * 34, 10, "token=***"),
        ("token=" + "x" * 30 + " abc", 10, "token=***\u2026"),
        ("token=" + "x" * 30 + " abc", 13, "token=*** abc"),
        ("x" * 41, 10, "x" * 9 + "\u2026"),
        ("ab " + "x" * 41, 10, "ab"),
        ("ab\n" + "x" * 41, 10, "ab"),
        ("ab&" + "x" * 41, 10, "ab"),
        ("ab cd&ef\ngh" + "x" * 41, 10, "ab cd&ef"),
        ("ab cd " + "x" * 41, 10, "ab cd"),
        ("ab\ncd\n" + "x" * 41, 10, "ab cd"),
        ("ab&cd&" + "x" * 41, 10, "ab&cd"),
        ("a " + "x" * 41, 10, "a"),
        ("token=" + "x" * 50 + " a b c d e f g h i j k", 15, "token=*** a"),
        (" " + "x" * 41, 10, " " + "x" * 8 + "\u2026"),
    ],
)
def test_a_long_text_is_cut_after_a_whole_word_and_then_to_its_length(text: str, most: int, left: str) -> None:
    assert redact(text, most) == left
