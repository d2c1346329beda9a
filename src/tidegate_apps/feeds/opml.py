"""OPML import and export."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from tidegate_apps.feeds.models import Source, SourceRequest, check_url
from tidegate_apps.feeds.service import Sources

MAX_BYTES = 5_000_000
MEDIA_TYPE = "text/x-opml"
_MAX_FEEDS = 100_000
_MAX_NAME = 200
_MAX_DEPTH = 100


class NoOpml(ValueError):
    """The file is not readable OPML."""


def parse_opml(text: bytes) -> tuple[list[SourceRequest], int]:
    """Return the feeds of a list, each URL once, and how many outlines had an invalid URL.

    Raises NoOpml for anything else, and for a file with a document type: entities could expand a small file to
    gigabytes.
    """
    if len(text) > MAX_BYTES:
        raise NoOpml(f"file: it is too large; give at most {MAX_BYTES // 1_000_000} MB")
    requests: dict[str, SourceRequest] = {}
    refused = 0
    for attributes in _outlines(text):
        url_text = attributes.get("xmlurl", "")
        if not url_text.strip():
            continue
        try:
            url = check_url(url_text)
        except ValueError:
            refused += 1
            continue
        name = " ".join((attributes.get("title") or attributes.get("text") or "").split())[:_MAX_NAME]
        requests.setdefault(url, SourceRequest(feed_url=url, name=name))
        if len(requests) > _MAX_FEEDS:
            raise NoOpml(f"file: it lists too many feeds; give at most {_MAX_FEEDS:,}")
    return list(requests.values()), refused


def _outlines(text: bytes) -> list[dict[str, str]]:
    outlines: list[dict[str, str]] = []
    root, depth = "", 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal root, depth
        root, depth = root or name.lower(), depth + 1
        if depth > _MAX_DEPTH:
            raise NoOpml(f"file: its folders are too deep; give at most {_MAX_DEPTH} levels")
        if name.lower() == "outline":
            outlines.append({key.lower(): value for key, value in attributes.items()})

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    def declared(*_: object) -> None:
        raise NoOpml("file: it declares a document type, which no list of feeds needs")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = declared
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise NoOpml(f"file: it is not valid OPML ({expat.ErrorString(error.code)}, line {error.lineno})") from error
    except (LookupError, ValueError) as error:
        if isinstance(error, NoOpml):
            raise
        raise NoOpml("file: it is not valid OPML (its encoding is not known)") from error
    if root != "opml":
        raise NoOpml("file: it is not valid OPML; give a file that begins with <opml>")
    return outlines


def write_opml(sources: Iterable[Source], now: float) -> Iterator[str]:
    """Yield the lines of an OPML file."""
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<opml version="2.0">'
    made = format_datetime(datetime.fromtimestamp(now, UTC))
    yield f"<head><title>Feeds</title><dateCreated>{made}</dateCreated></head>"
    yield "<body>"
    for source in sources:
        if source.feed_url:
            name = quoteattr(_plain(source.name))
            yield f'<outline type="rss" text={name} title={name} xmlUrl={quoteattr(_plain(source.feed_url))}/>'
    yield "</body>"
    yield "</opml>"


def _plain(text: str) -> str:
    """Return *text* without characters that XML does not allow."""
    return "".join(char for char in text if char.isprintable())


# -- import ------------------------------------------------------------------------------------------------------------
# Feeds are added in batches, to show progress and to keep what was added if the import is interrupted.

_PIECE = 500


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import."""

    added: int
    there: int  # existed before
    refused: int  # had no valid URL


def add_all(
    sources: Sources,
    requests: Sequence[SourceRequest],
    refused: int,
    by: str,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Imported:
    """Add the feeds that do not exist. *progress* gets the number processed and the total."""
    added = 0
    progress(0, len(requests))
    for start in range(0, len(requests), _PIECE):
        piece = requests[start : start + _PIECE]
        added += sum(made is not None for made in sources.add_many(piece, by, place=start, of=len(requests)))
        progress(start + len(piece), len(requests))
    return Imported(added, len(requests) - added, refused)


def every(sources: Sources) -> Iterator[Source]:
    """Yield all sources, page by page."""
    after = 0
    while rows := sources.list_sources(after, _PIECE):
        yield from rows
        after = rows[-1].id
