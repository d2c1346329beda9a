"""What is said between the gateway and the child process that converts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionOrder:
    """What is to be done; at most *most* bytes of XML are written."""

    source: str
    result: str
    mapping: str
    mappings: str | None = None  # the folder with those that do not come along
    pretty: bool
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionReport:
    """How it went: the code of a refusal, or what was written."""

    refused: str = ""
    size: int = 0
    pages: int = 0
    scans: int = 0  # pages without text on which something is drawn
    words: int = 0
