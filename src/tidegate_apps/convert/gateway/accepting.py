"""Whether a client takes what we have."""

from __future__ import annotations

_OURS = ("application/xml", "text/xml", "application/*", "*/*")


def accepts_xml(accept: str) -> bool:
    """Whether the header Accept allows XML; without one everything is allowed, and q=0 forbids.

    The most exact range that fits decides.
    """
    if not accept.strip():
        return True
    found: dict[str, float] = {}
    for part in accept.split(","):
        kind, *parameters = (each.strip().lower() for each in part.split(";"))
        found[kind] = max(found.get(kind, 0.0), _quality(parameters))
    decides = next((kind for kind in _OURS if kind in found), None)
    if decides in {"text/xml", "application/xml"}:
        return max(found.get("application/xml", 0.0), found.get("text/xml", 0.0)) > 0
    return decides is not None and found[decides] > 0


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
