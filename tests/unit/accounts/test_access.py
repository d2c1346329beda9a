"""Which tokens open the door, and the many that do not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa

from tidegate.accounts.access import AuthMethod, BadToken, Issuer, Principal, Role, issue_token, verify_token

NOW = 1_800_000_000.0
KEY = b"k" * 32
OWN = Issuer.own(KEY)
GOOD: dict[str, Any] = {
    "sub": "watcher", "role": "poller", "iss": "tidegate", "aud": "tidegate", "iat": int(NOW), "exp": int(NOW) + 60,
}  # fmt: skip


def signed(key: Any = KEY, algorithm: str = "HS256", **changes: Any) -> str:
    claims = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    return jwt.encode(claims, key, algorithm=algorithm)


def pem_of(key: Any) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return str(key.public_key().public_bytes(serialization.Encoding.PEM, form), "ascii")


RSA = rsa.generate_private_key(65537, 2048)


def confused() -> str:
    """Signed with the public key as if it were a shared secret: the oldest trick there is."""
    head, body = ({"alg": "HS256", "typ": "JWT"}, GOOD)
    text = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (head, body))
    mac = hmac.digest(pem_of(RSA).encode(), text.encode(), hashlib.sha256)
    return f"{text}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def raw(head: str, body: str) -> str:
    """Signed by us, whatever the parts are."""
    text = ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in (head, body))
    mac = hmac.digest(KEY, text.encode(), hashlib.sha256)
    return f"{text}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


HEAD, DEEP = '{"alg": "HS256", "typ": "JWT"}', "[" * 20_000
ODD_TIMES: dict[str, Any] = {
    "10**400": 10**400, "-10**400": -(10**400), "infinity": float("inf"), "-infinity": float("-inf"),
    "NaN": float("nan"), "a list": [1], "an object": {},
}  # fmt: skip
ODD = {
    **{f"exp {what}": signed(exp=given) for what, given in ODD_TIMES.items()},
    **{f"nbf {what}": signed(nbf=given) for what, given in ODD_TIMES.items()},
    "sub with NUL": signed(sub="a\0b"),
    "sub with a line end": signed(sub="a\nb"),
    "sub that cannot be encoded": signed(sub="a\ud800b"),
    "sub that is a number": raw(HEAD, json.dumps({**GOOD, "sub": 7})),
    "a head without an end": raw(DEEP, "{}"),
    "a body without an end": raw(HEAD, DEEP),
    "a body that is a list": raw(HEAD, "[]"),
    "a number of 5,000 digits": raw(HEAD, json.dumps(GOOD)[:-1] + ', "nbf": ' + "9" * 5000 + "}"),
    "an audience of numbers": raw(HEAD, json.dumps({**GOOD, "aud": [1, {}]})),
    "an issuer that is a list": raw(HEAD, json.dumps({**GOOD, "iss": ["tidegate"]})),
    "a role that is an object": raw(HEAD, json.dumps({**GOOD, "role": {}})),
}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
def test_a_claim_that_nobody_would_send_is_a_bad_token_and_no_failure_of_the_server(what: str) -> None:
    with pytest.raises(BadToken):
        verify_token(OWN, ODD[what], NOW)


def test_what_is_made_here_is_read_here_until_it_ends() -> None:
    token = issue_token(OWN, "watcher", Role.POLLER, 60, NOW)
    found = verify_token(OWN, token, NOW)
    assert found == Principal("jwt watcher", Role.POLLER, AuthMethod.JWT, found.owner)
    assert verify_token(OWN, token, NOW + 69).role is Role.POLLER
    with pytest.raises(BadToken, match="it has expired"):
        verify_token(OWN, token, NOW + 71)


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (RSA, "RS256"),
        (ec.generate_private_key(ec.SECP256R1()), "ES256"),
        (ed25519.Ed25519PrivateKey.generate(), "EdDSA"),
    ],
    ids=["RSA", "EC", "Ed25519"],
)
def test_tokens_of_somebody_whose_public_key_is_known_are_read(key: Any, algorithm: str) -> None:
    issuer = Issuer.of_public_key(pem_of(key))
    assert verify_token(issuer, signed(key, algorithm), NOW).name == "jwt watcher"
    with pytest.raises(BadToken):
        verify_token(issuer, signed(), NOW)


@pytest.mark.parametrize(
    ("issuer", "token"),
    [
        (OWN, ""),
        (OWN, "x.y.z"),
        (OWN, "é"),
        (OWN, signed(key=b"j" * 32)),
        (OWN, signed(key="", algorithm="none")),
        (OWN, signed(algorithm="HS512", key=KEY * 2)),
        (OWN, signed(exp=None)),
        (OWN, signed(aud=None)),
        (OWN, signed(iss=None)),
        (OWN, signed(sub=None)),
        (OWN, signed(role=None)),
        (OWN, signed(aud="other")),
        (OWN, signed(iss="other")),
        (OWN, signed(role="root")),
        (OWN, signed(role=["admin"])),
        (OWN, signed(exp=int(NOW) - 11)),
        (OWN, signed(exp="tomorrow")),
        (OWN, signed(exp=True)),
        (OWN, signed(exp=float("nan"))),
        (OWN, signed(nbf=int(NOW) + 11)),
        (OWN, signed()[:-6] + "AAAAAA"),
        (OWN, signed().replace(".", "", 1)),
        (Issuer.of_public_key(pem_of(RSA)), confused()),
    ],
    ids=[
        "empty", "garbage", "no ascii", "other key", "alg none", "other algorithm", "no exp", "no aud", "no iss",
        "no sub", "no role", "other aud", "other iss", "unknown role", "list of roles", "expired", "exp text",
        "exp true", "exp not a number", "too early", "changed signature", "two parts", "public key as secret",
    ],
)  # fmt: skip
def test_a_token_that_is_not_wholly_right_opens_nothing(issuer: Issuer, token: str) -> None:
    with pytest.raises(BadToken) as caught:
        verify_token(issuer, token, NOW)
    assert token[:20] not in str(caught.value) or not token


@pytest.mark.parametrize(
    ("pem", "says"),
    [
        ("hello", "PEM"),
        (pem_of(ec.generate_private_key(ec.SECP384R1())), "not supported"),
        (pem_of(dsa.generate_private_key(1024)), "not supported"),
    ],
)
def test_a_key_that_cannot_be_used_is_said(pem: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Issuer.of_public_key(pem)
