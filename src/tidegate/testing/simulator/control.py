"""The control endpoint of a simulator, `/_sim`: reads the journal, and changes the script or the outage at run time.

GET    /_sim               its state
GET    /_sim/journal       its requests; ?route=GET /album&most=50
POST   /_sim/script        {"route": "GET /album", "steps": [{"status": 503}, {"hang": "30s"}], "answer": ...}
POST   /_sim/outage        {"text": "5m down"}
DELETE /_sim/outage        ends the outage
POST   /_sim/reset         restores the declared script, and empties the journal
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tidegate.testing.simulator.requests import Read
from tidegate.testing.simulator.steps import Step
from tidegate.validation import similar

if TYPE_CHECKING:
    from tidegate.testing.simulator.service import Simulator

PATH = "/_sim"
_FOR_EVER = "1d"
_LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
_FIELDS = {field.name for field in fields(Step) if field.init} | {"base64"}


def controls(path: str) -> bool:
    """Whether a path belongs to the control endpoint."""
    return path == PATH or path.startswith(f"{PATH}/")


def answer(sim: Simulator, read: Read) -> Step:
    """Returns the control endpoint's response."""
    if not _from_here(read):
        return _said(403, "the control endpoint answers this machine only")
    handler = _VERBS.get((read.method, read.path.removeprefix(PATH).rstrip("/")))
    if handler is None:
        paths = ", ".join(f"{method} {PATH}{path}" for method, path in _VERBS)
        return _said(404, f"the control endpoint has no {read.method} {read.path}; there are: {paths}")
    try:
        return Step(200, handler(sim, read))
    except (ValueError, TypeError) as error:
        return _said(400, str(error))


def _state(sim: Simulator, _: Read) -> Any:
    return sim.as_json()


def _journal(sim: Simulator, read: Read) -> Any:
    query = {name: values[-1] for name, values in parse_qs(read.query).items()}
    _known(query, {"route", "most"})
    limit = query.get("most", "100")
    if not limit.isascii() or not limit.isdigit():
        raise ValueError(f"most: {limit!r} is not a number; give how many of the last requests are wanted, such as 100")
    requests = sim.asked(query.get("route"))
    return {
        "asked": [request.as_json() for request in requests[-int(limit) :]] if int(limit) else [],
        "kept": len(requests),
    }


def _script(sim: Simulator, read: Read) -> Any:
    fields = _object(read)
    _known(fields, {"route", "steps", "answer"})
    steps = fields.get("steps", [])
    if not isinstance(fields.get("route"), str):
        raise TypeError("route: it is missing; give a method and a path, such as 'GET /album/{id}'")
    if not isinstance(steps, list):
        raise TypeError('steps: it is not a list; give one, such as [{"status": 503}]')
    made = [step_from(step) for step in steps]
    stays = (step_from(fields["answer"]),) if "answer" in fields else ()
    if not made and not stays:
        raise ValueError("steps: there are none, and no answer; give at least one")
    sim.then(fields["route"], *made)
    for stay in stays:
        sim.stay(fields["route"], stay)
    return sim.as_json()


def _outage(sim: Simulator, read: Read) -> Any:
    fields = _object(read)
    _known(fields, {"text", "route"})
    if fields.get("text") is None:
        raise ValueError("text: it is missing; give an outage, such as '5m down'")
    if not isinstance(fields.get("route", ""), str):
        raise TypeError(
            "route: it is not a string; give a method and a path, such as 'GET /album/{id}', or leave it out"
        )
    sim.outage(fields["text"], fields.get("route"))
    return sim.as_json()


def _no_outage(sim: Simulator, _: Read) -> Any:
    sim.outage(None)
    return sim.as_json()


def _reset(sim: Simulator, _: Read) -> Any:
    sim.reset()
    return sim.as_json()


_VERBS: Mapping[tuple[str, str], Callable[[Simulator, Read], Any]] = {
    ("GET", ""): _state,
    ("GET", "/journal"): _journal,
    ("POST", "/script"): _script,
    ("POST", "/outage"): _outage,
    ("DELETE", "/outage"): _no_outage,
    ("POST", "/reset"): _reset,
}


def step_from(fields: object) -> Step:
    """Builds a step from JSON. Raises ValueError or TypeError with the field. Bytes are given as `base64`."""
    if not isinstance(fields, dict):
        raise TypeError(f'step: {fields!r:.80} is not a step; give an object, such as {{"status": 503}}')
    _known(fields, _FIELDS)
    values = dict(fields)
    if "base64" in values:
        values["body"] = _bytes(values.pop("base64"), "base64")
    if "raw" in values:
        values["raw"] = str(values["raw"]).encode()
    if values.get("hang") is True:
        values["hang"] = _FOR_EVER
    for flag in ("gzip", "reset"):
        if not isinstance(values.get(flag, False), bool):
            raise TypeError(f"{flag}: {values[flag]!r} is not allowed; give true or false")
    if not isinstance(values.get("headers", {}), dict):
        raise TypeError('headers: they are not an object; give one, such as {"ETag": "7"}')
    return Step(**values)


def _bytes(text: object, field: str) -> bytes:
    try:
        return base64.b64decode(text if isinstance(text, str) else "?", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{field}: it is not valid base64; give bytes in that form") from error


def _object(read: Read) -> dict[str, Any]:
    try:
        document = json.loads(read.body)
    except (ValueError, RecursionError) as error:
        raise ValueError("the body is not valid JSON; give an object") from error
    if not isinstance(document, dict):
        raise TypeError("the body is not a JSON object; give one")
    return document


def _known(fields: Mapping[str, object], allowed: set[str]) -> None:
    for name in fields:
        if name not in allowed:
            near = similar(name, allowed)
            hint = f"did you mean {near!r}?" if near else f"choose one of: {', '.join(sorted(allowed))}"
            raise ValueError(f"unknown field {name!r}; {hint}")


def _from_here(read: Read) -> bool:
    """Whether a request is local and not from another site in a browser, which may use our host name or its own."""
    host = read.headers.get("host")
    origin = read.headers.get("origin")
    return _name(host) in _LOCAL and (not origin or origin == f"http://{host}")


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _said(status: int, message: str) -> Step:
    return Step(status, {"error": message})
