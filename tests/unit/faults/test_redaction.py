"""No secret reaches a log: what looks like one is taken out, whatever it is wrapped in."""

from __future__ import annotations

import pytest

from tidegate.faults.redaction import MAX_REDACTED, redact, shown_value
from tidegate.logs import redacted_traceback

SECRET = "hunter2-Zz.9~x"

# The names of secrets that the services around us use.
QUERY = (
    "u", "t", "s", "p", "apikey", "api_key", "api_sig", "sk", "token", "client_key", "access_token", "refresh_token",
    "client_secret", "password", "code",
)  # fmt: skip
HEADERS = ("Authorization", "X-Api-Key", "x-nd-authorization", "api-key", "client-key", "Cookie", "Set-Cookie")


# Names of secrets, and names that only look like them: in a text, and in JSON.
SECRET_NAMES = (
    "password", "passwd", "pwd", "passphrase", "passcode", "db_pass", "PGPASSWORD", "user.password", "private_key",
    "privateKey", "client_secret", "clientSecret", "secret", "secret_id", "access_key", "secret_key",
    "aws_secret_access_key",
    "refresh_token", "id_token", "accessToken", "X-Amz-Security-Token", "csrf_token", "session", "session_id",
    "sessionid", "PHPSESSID", "cookie", "Set-Cookie", "authorization", "Proxy-Authorization", "x-api-key", "apikey",
    "credential", "credentials", "X-Amz-Credential", "X-Amz-Signature", "X-Goog-Signature", "sig", "api_sig",
    "signature", "jwt", "otp", "hmac", "dsn", "sentry_dsn",
)  # fmt: skip
HARMLESS_NAMES = (
    "keyboard", "monkey", "turkey", "token_count", "token_type", "max_tokens", "total_tokens", "tokenizer", "author",
    "authority", "secretary", "compass", "bypass", "passport", "passed", "sessions", "signal", "design", "obsession",
    "cookie_name", "password_length", "credential_type", "session_count", "spotify", "keys",
)  # fmt: skip


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_the_value_of_a_secret_name_is_gone(name: str) -> None:
    for text in (
        f"{name}={SECRET}",
        f"{name}: {SECRET}",
        f'{{"{name}": "{SECRET}"}}',
        f"GET /x?a=1&{name}={SECRET}&b=2",
    ):
        assert SECRET not in redact(text)
    assert shown_value({name: SECRET, "deep": [{name: [SECRET]}]}) == {name: "***", "deep": [{name: "***"}]}


@pytest.mark.parametrize("name", HARMLESS_NAMES)
def test_the_value_of_a_harmless_name_stays(name: str) -> None:
    for text in (f"{name}=512", f"{name}: 512", f'{{"{name}": 512}}'):
        assert redact(text) == text
    assert shown_value({name: 512}) == {name: 512}


@pytest.mark.parametrize("token", [
    "AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE", "ghp_" + "a1" * 18, "gho_" + "a1" * 18, "github_pat_" + "a1" * 20,
    "glpat-" + "a1" * 10, "xoxb-123456789012-abcdefghijkl", "xapp-1-A012-345-abcdef", "sk_live_" + "a1" * 12,
    "rk_test_" + "a1" * 12, "whsec_" + "a1" * 12, "AIza" + "a1" * 17, "ya29." + "a1" * 20, "npm_" + "a1" * 18,
    "pypi-AgEIcHlwaS5vcmc" + "a1" * 20, "hf_" + "aB" * 17, "SG." + "a1" * 11 + "." + "b2" * 20, "dop_v1_" + "a1" * 20,
    "tg_" + "a1" * 21, "sk-proj-" + "a1" * 12, "eyJhbGciOi.eyJzdWIi.c2ln",
])  # fmt: skip
def test_a_token_is_known_by_its_beginning(token: str) -> None:
    assert redact(f"it was {token} here") == "it was *** here"


@pytest.mark.parametrize("text", [
    "table tg_job_by_queue_and_state", "asian food", "skating", "sg.example.org", "the task-list",
    "npm_config_registry",
])  # fmt: skip
def test_a_word_that_begins_like_a_token_stays(text: str) -> None:
    assert redact(text) == text


BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEF\nAASCBKcwggSjAgEAAoIBAQC7\nhunter2ABCDEF=="
MULTI_LINE = [
    f"-----BEGIN PRIVATE KEY-----\n{BODY}\n-----END PRIVATE KEY-----",
    f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\r\n{BODY}",
    f'"private_key": "-----BEGIN EC PRIVATE KEY-----\n{BODY}\n-----END EC PRIVATE KEY-----"',
    f"private_key=-----BEGIN PRIVATE KEY-----\n{BODY}\n-----END PRIVATE KEY-----",
    f"'-----BEGIN PRIVATE KEY-----\\n{BODY!r}\\n-----END PRIVATE KEY-----'",
    "password: |\n  first hunter2\n  second hunter2",
    "client_secret: >-\n    first\n    hunter2\n",
    'password="first\nhunter2"',
    "{'token': 'first\nhunter2\nthird'}",
]


@pytest.mark.parametrize("text", MULTI_LINE)
def test_a_secret_of_several_lines_is_gone_from_messages_and_tracebacks(text: str) -> None:
    for said in (redact(f"before {text}\nafter"), traceback_of(f"before\n{text}\nafter")):
        assert "hunter2" not in said
        assert "MIIE" not in said
        assert "before" in said
    assert "in traceback_of" in traceback_of(text)


def traceback_of(message: str) -> str:
    try:
        raise ValueError(message)
    except ValueError as error:
        return redacted_traceback((ValueError, error, error.__traceback__))


@pytest.mark.parametrize("name", QUERY)
def test_the_value_of_a_secret_in_a_query_string_or_a_form_is_gone(name: str) -> None:
    for text in (
        f"GET https://host/path?{name}={SECRET}&page=2 failed",
        f"GET https://host/path?page=2&{name}={SECRET}",
        f"{name}={SECRET}&page=2",
        f"for url 'https://host/?{name}={SECRET}'",
        f"TypeError: {name}={SECRET}",
    ):
        assert SECRET not in redact(text)
        assert "***" in redact(text)
    assert "page=2" in redact(f"https://host/?{name}={SECRET}&page=2")


@pytest.mark.parametrize("name", [name for name in QUERY if name != "code"])
def test_the_value_of_a_secret_in_a_document_or_a_dictionary_is_gone(name: str) -> None:
    for text in (
        f'{{"{name}": "{SECRET}", "page": 2}}',
        f'{{"{name}":"{SECRET}"}}',
        f"{{'{name}': '{SECRET}'}}",
        f"[('{name}', '{SECRET}')]",
        f"{{'{name}': 'two words {SECRET}'}}",
        f"{{'{name}': \"it's {SECRET}\"}}",
    ):
        assert SECRET not in redact(text)


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("scheme", ["", "Bearer ", "Basic ", "Digest username=joe, response="])
def test_the_value_of_a_secret_header_is_gone(name: str, scheme: str) -> None:
    if scheme and "uthorization" not in name and "ookie" not in name:
        return
    for text in (
        f"{name}: {scheme}{SECRET}",
        f"{name.upper()}: {scheme}{SECRET}\r\nAccept: */*",
        f"{{'{name}': '{scheme}{SECRET}'}}",
        f"Headers([('{name.lower()}', '{scheme}{SECRET}')])",
        f"[(b'{name.lower()}', b'{scheme}{SECRET}')]",
    ):
        assert SECRET not in redact(text)


@pytest.mark.parametrize("text", [
    f"https://joe:{SECRET}@host/path", f"https://{SECRET}@host/path", f"postgresql://joe:p@{SECRET}@host:5432/db",
    f"sent Bearer {SECRET}", f"sent bearer  {SECRET}", f"Basic {SECRET}",
    f"https%3A%2F%2Fhost%3Faccess_token%3D{SECRET}",
    f'{{\\"token\\": \\"{SECRET}\\"}}', f"password => {SECRET}", f"PASSWORD={SECRET}", f"passphrase: {SECRET}",
    "Incorrect API key provided: sk-proj-" + SECRET.replace("~", ""),
    "it was eyJhbGciOi.eyJzdWIi." + SECRET.replace("~", ""),
    "İ" * 40 + f" TOKEN={SECRET}",
])  # fmt: skip
def test_a_secret_in_another_wrapping_is_gone(text: str) -> None:
    assert "hunter2" not in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "[Errno 111] Connection refused",
        "status code: 403",
        "error code: 9",
        "monkey business",
        "the keys are lost",
        "for url 'http://127.0.0.1:8080/rest/ping?page=2'",
        "max_tokens must be positive",
        "user@example.org is unknown",
        "basic math",
        "a bearer of bad news",
        "token expired",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


def test_the_result_is_one_printable_line_of_bounded_length() -> None:
    assert redact("one\ntwo\r\n\tthree") == "one two three"
    assert redact("a\x00b\x1b[31mc") == "a b [31mc"
    assert redact("x" * 10_000) == "x" * (MAX_REDACTED - 1) + "…"
    assert redact("x" * MAX_REDACTED) == "x" * MAX_REDACTED


@pytest.mark.parametrize("at", range(4 * MAX_REDACTED - 60, 4 * MAX_REDACTED + 10))
def test_a_cut_through_a_secret_does_not_show_its_first_half(at: int) -> None:
    # The token before it shrinks to three stars, so that the end of what was read is shown.
    filler = "token=" + "x" * (at - 6)

    assert "hunter" not in redact(f"{filler} https://joe:{SECRET}@host/path")
    assert "hunter" not in redact(f"{filler}&://joe:{SECRET}@host/path")
    assert "hunter" not in redact(f"{filler} Bearer {SECRET}")


def test_a_secret_right_after_another_whose_quotes_do_not_match_is_gone() -> None:
    inner = ValueError(f"{{'Authorization': 'Bearer {SECRET}'}} {{'apikey': '{SECRET}'}}")

    assert SECRET not in redact(str(RuntimeError("wrapped", inner, ValueError(f"{{'u': '{SECRET}'}}"))))
