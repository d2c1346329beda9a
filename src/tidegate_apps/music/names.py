"""When two names are one: what people and services write differently is left out. Pure."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

MAX_NAME = 300  # characters of a name that count; a longer one is cut
_GUEST = re.compile(r"[\s(\[]+(?:feat|featuring|ft)\b\.?(?:\s|(?=[^\w\s])).*$", re.IGNORECASE)
_MARKS = re.compile(r"[^\w\s]|_")
_ARTICLE = re.compile(r"^the\s+(?!the$)(?=\S)")
_SPACE = re.compile(r"\s+")


@lru_cache(maxsize=20_000)
def key_of(name: str) -> str:
    """The name without case, accents, punctuation, a leading "the" and what follows "feat."; never empty for a name.

    Names of marks alone ("!!!", "+/-") stay as they are.
    """
    whole = unicodedata.normalize("NFKC", name[:MAX_NAME]).casefold().strip()
    bare = _GUEST.sub("", whole)
    bare = "".join(each for each in unicodedata.normalize("NFKD", bare) if not unicodedata.combining(each))
    bare = _SPACE.sub(" ", _MARKS.sub(" ", bare.replace("&", " and ").replace("'", "").replace("’", ""))).strip()  # noqa: RUF001
    return _ARTICLE.sub("", bare) or _SPACE.sub(" ", whole)


def clean(text: str, limit: int = MAX_NAME) -> str:
    """As every database takes it: no NUL, no half of a surrogate pair, not at any length."""
    return text.replace("\0", "").encode("utf-8", "replace").decode().strip()[:limit]
