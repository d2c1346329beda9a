"""PostgreSQL connection settings: direct, or through a connection pooler such as PgBouncer.

A pooler in transaction mode gives each transaction another server connection, so a session has no state. With
`?pooled=true` session settings become settings of each transaction, and no statement is prepared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import Literal

from tidegate.errors import StoreBusy, StoreError

UNREACHABLE = "the database cannot be reached"
BEHIND_POOLER = (
    "a connection pooler such as PgBouncer is in front of the database; add pooled=true to the URL:"
    " postgresql://user@host/database?pooled=true"
)

# Defaults; the URL overrides them.
_CLIENT: dict[str, Any] = {
    "connect_timeout": "5",
    "tcp_user_timeout": "10000",
    "keepalives_idle": "10",
    "application_name": "tidegate",
}
_SESSION = {
    "statement_timeout": "10000",
    "lock_timeout": "5000",
    "idle_in_transaction_session_timeout": "30000",
    "max_parallel_workers_per_gather": "0",  # starting parallel workers takes longer than any of our statements
}
# A setting that PostgreSQL does not know. If it is missing after connecting, a proxy dropped the options.
_MARKER = "tidegate.direct"
_HOPELESS = (
    "does not exist",
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "permission denied",
    "no such database",  # PgBouncer
    "no such user",
)
_REFUSES_OPTIONS = ("unsupported startup parameter", "command-line options")  # PgBouncer, the proxy of RDS
_POOLED = re.compile(r"([?&])pooled=([^&]*)(?:&|$)")
_ESCAPED = re.compile(r"(?:\\.|[^\\\s])+", re.DOTALL)
_OPTION = re.compile(r"(?:-c|--)\s*([A-Za-z_][\w.-]*)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresAddress:
    """A parsed URL: parameters for libpq, and the settings that begin each pooled transaction."""

    conninfo: str
    pooled: bool
    settings: Mapping[str, str]

    @classmethod
    def of(cls, url: str, *, field: str = "url") -> PostgresAddress:
        """Parses *url*. Raises ValueError without repeating a password if it is not valid."""
        plain, pooled = _without_pooled(url, field)
        try:
            options_by_name = conninfo_to_dict(plain)
        except psycopg.ProgrammingError as error:
            problem = str(error).partition(chr(34))[0].strip()  # the rest may contain a password
            raise ValueError(f"{field}: {problem}") from None
        if not all(port.isdigit() for port in str(options_by_name.get("port", 0)).split(",")):
            raise ValueError(f"{field}: the port of the URL is not a number; give one such as 5432")
        options = str(options_by_name.pop("options", None) or "")
        if pooled:
            settings = {**_SESSION, **dict(_settings(options, field))}
            return cls(conninfo=make_conninfo(**{**_CLIENT, **options_by_name}), pooled=True, settings=settings)
        ours = " ".join(f"-c {name}={value}" for name, value in {**_SESSION, _MARKER: "1"}.items())
        options_by_name["options"] = f"{ours} {options}".strip()
        return cls(conninfo=make_conninfo(**{**_CLIENT, **options_by_name}), pooled=False, settings={})

    @property
    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of `psycopg.connect` in addition to the conninfo."""
        return {"autocommit": True, **({"prepare_threshold": None} if self.pooled else {})}

    @property
    def on_this_machine(self) -> bool:
        host = str(conninfo_to_dict(self.conninfo).get("host") or "/")
        return host.startswith(("/", "@"))  # a Unix socket

    @property
    def opening(self) -> str:
        """Returns the first statement of a pooled transaction.

        It applies the settings and returns the start time of the server and the id of the backend process.
        """
        applied = [f"set_config({_text(name)}, {_text(value)}, true)" for name, value in self.settings.items()]
        if "transaction_timeout" not in self.settings:  # PostgreSQL 17 and later
            applied.append(
                "case when current_setting('transaction_timeout', true) = '0'"
                " then set_config('transaction_timeout', '60s', true) end"
            )
        return f"select pg_postmaster_start_time()::text, pg_backend_pid(), {', '.join(applied)}"

    def connect(self) -> psycopg.Connection[Any]:
        """Opens a connection outside the pool. Raises StoreBusy if a retry may help, else StoreError."""
        try:
            connection = psycopg.connect(self.conninfo, **self.arguments)
        except psycopg.OperationalError as error:
            text = str(error).strip()
            if not self.pooled and any(words in text for words in _REFUSES_OPTIONS):
                raise StoreError(BEHIND_POOLER) from error
            if any(words in text for words in _HOPELESS):
                raise StoreError(text.splitlines()[-1]) from error
            raise StoreBusy(UNREACHABLE) from error
        if self.pooled:
            return connection
        try:
            marked = connection.execute(f"select current_setting('{_MARKER}', true)").fetchone()
        except psycopg.Error as error:
            connection.close()
            raise StoreBusy(UNREACHABLE) from error
        if not marked or not marked[0]:
            connection.close()
            raise StoreError(BEHIND_POOLER)
        return connection


def _without_pooled(url: str, field: str) -> tuple[str, bool]:
    match = _POOLED.search(url)
    if match is None:
        return url, False
    if match[2] not in ("true", "false"):
        raise ValueError(f"{field}: pooled must be true or false, got {match[2]!r:.20}")
    rest = url[match.end() :]
    return f"{url[: match.start()]}{match[1] if rest else ''}{rest}", match[2] == "true"


def _settings(options: str, field: str) -> Iterator[tuple[str, str]]:
    """Yields the session settings in libpq's options: `-c search_path=jobs --work-mem=8MB`."""
    words = [re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL) for word in _ESCAPED.findall(options)]
    while words:
        word = words.pop(0)
        if word == "-c" and words:
            word += words.pop(0)
        setting = _OPTION.fullmatch(word)
        if setting is None:
            raise ValueError(f"{field}: with pooled=true, options may only be -c name=value, got {word!r:.40}")
        yield setting[1].replace("-", "_"), setting[2]


def _text(value: str) -> str:
    return Literal(value).as_string(None).strip()
