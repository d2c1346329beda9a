"""A simulated gateway with scripted failures, for tests, and for `tidegate serve --simulators`.

    with GatewaySimulator() as sim:
        sim.fails("unavailable", "throttled", "hangs")     # the next three; then it returns XML again
        sim.now("unavailable")                             # conversions and health, until sim.now("well")
        sim.health(up=False)                               # GET /health returns 503, until health(up=True)
        sim.outage("5m down")                              # connections are refused; sim.outage(None) ends it
        convert(f"{sim.url}/process")
        assert sim.count("POST /process") == 1
        assert sim.forms()[0]["job_id"] == "7"             # the fields that it received

FAILURES lists the named failures. `sim.then("POST /process", Step(...))` scripts others, and
`sim.stay("POST /process", FAILURES["unavailable"])` fails until `sim.reset()`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.apps import Simulated
from tidegate.testing import Hang, RecordedRequest, Simulator, Step
from tidegate_apps.convert.gateway.http import accepts_xml
from tidegate_apps.convert.gateway.mappings import NAMES, Mappings

PROCESS, HEALTH = "POST /process", "GET /health"
_XML = {"Content-Type": "application/xml"}
_MAX_BODY = 64 * 1024 * 1024
_PART = re.compile(rb'Content-Disposition: form-data; name="([^"]*)".*?\r\n\r\n(.*)\r\n', re.DOTALL | re.IGNORECASE)


def _problem(status: int, code: str, title: str, **more: Any) -> Step:
    said = {"type": "about:blank", "title": title, "status": status, "detail": title, "code": code}
    return Step(status, said, {"Content-Type": "application/problem+json"}, **more)


def _document(mapping: str) -> str:
    size = ' width="595.00" height="842.00" rotation="0"' if mapping == "layout" else ""
    place = 'x="72.00" y="72.00" width="60.00" height="9.00"'
    words = {
        "layout": f'<line {place} size="12.00"><word {place}>simulated</word></line>',
        "text": "<paragraph>simulated</paragraph>",
    }
    counts = 'text-pages="1" scan-pages="0" blank-pages="0" unreadable-pages="0" lines="1" words="1"'
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<document mapping="{mapping}" version="1" pages="1">'
        f'<page number="1" content="text"{size}>{words[mapping]}</page><summary {counts}/></document>\n'
    )


_WHOLE = _document("layout")

# Failures by name. Some share a status, but the client must treat them differently.
FAILURES: Mapping[str, Any] = {
    "malformed": _problem(400, "malformed", "The request is not as it should be."),
    "unknown_mapping": _problem(400, "unknown_mapping", "There is no such mapping."),
    "unauthorised": _problem(401, "unauthorised", "Who are you?"),
    "not_there": _problem(404, "not_there", "There is nothing here."),
    "not_acceptable": _problem(406, "not_acceptable", "The answer is XML."),
    "too_slow": _problem(408, "too_slow", "The request took too long to arrive."),
    "too_large": _problem(413, "too_large", "The file is too large."),
    "media_type": _problem(415, "media_type", "The file must come as application/pdf."),
    "encrypted": _problem(422, "encrypted", "The document is locked with a password."),
    "throttled": _problem(429, "busy", "The gateway has too much to do.", retry_after=2),
    "internal": _problem(500, "internal", "Something went wrong in the gateway."),
    "bad_gateway": Step(502, "<html><body>Bad Gateway</body></html>", {"Content-Type": "text/html"}),
    "unavailable": _problem(503, "busy", "The gateway has too much to do."),
    "unavailable_for_a_while": _problem(503, "busy", "The gateway has too much to do.", retry_after=30),
    "hangs": Hang(),  # accepts the request and never responds
    "resets": Step(reset=True),
    "cut_off": Step(200, _WHOLE, _XML, cut=100),  # the connection closes before the end of the body
    "truncated": Step(200, _WHOLE[:100], _XML),  # the HTTP response is complete, the XML is not
    "empty": Step(200, b"", _XML),
    "html": Step(200, "<html><body>Please sign in</body></html>", {"Content-Type": "text/html"}),
    "json": Step(200, {"ok": True}),
}


class GatewaySimulator(Simulator):
    """Responds like the gateway, with the same small document for every PDF, after *takes* seconds."""

    def __init__(self, *, takes: str = "0s", **more: Any) -> None:
        super().__init__("convert-gateway", max_body=_MAX_BODY, on_reset=self._begin, **more)
        self._takes = takes
        self._begin()
        self.on(PROCESS, self._processed)
        self.on(HEALTH, {"status": "ok", "mappings": list(NAMES), "active": 0, "waiting": 0})
        self.on("GET /schemas/{mapping}", _schema)

    def fails(self, *names: str) -> None:
        """Set the failures of the next conversions, in order. Raises KeyError."""
        self.then(PROCESS, *(FAILURES[name] for name in names))

    def now(self, name: str) -> None:
        """Set the failure of all conversions and of health checks. "well" clears it."""
        if name != "well" and name not in FAILURES:
            raise ValueError(f"name: {name!r:.40} is not known; give one of well, {', '.join(FAILURES)}")
        self.state = name
        self.health(up=name == "well")

    def _begin(self) -> None:
        self.state = "well"

    def _processed(self, request: RecordedRequest) -> object:
        reply = _processed(request) if self.state == "well" else FAILURES[self.state]
        return replace(reply, delay=self._takes) if isinstance(reply, Step) and self.state == "well" else reply

    def health(self, *, up: bool) -> None:
        self.stay(HEALTH, {"status": "ok", "mappings": list(NAMES)} if up else FAILURES["unavailable"])

    def forms(self) -> list[dict[str, str]]:
        """Return the fields of each requested conversion, oldest first. The file is its size in bytes."""
        forms = [_form(request) for request in self.asked(PROCESS)]
        return [
            {
                name: str(len(value)) if name == "file" else value.decode("utf-8", "replace")
                for name, value in form.items()
            }
            for form in forms
        ]


def simulated() -> Simulated:
    """Return the simulator as the gateway of the application."""
    return Simulated(
        GatewaySimulator(), lambda url: {"gateway_url": url}, "takes any PDF that is put in on the page Convert"
    )


def _processed(request: RecordedRequest) -> object:
    form = _form(request)
    mapping = form.get("mapping", b"").decode("utf-8", "replace")
    if not accepts_xml(request.headers.get("accept")):
        return FAILURES["not_acceptable"]
    if "file" not in form:
        return FAILURES["malformed"]
    if not form["file"].startswith(b"%PDF-"):
        return _problem(400, "not_pdf", "The file is no PDF.")
    return Step(200, _document(mapping), _XML) if mapping in NAMES else FAILURES["unknown_mapping"]


def _schema(request: RecordedRequest) -> object:
    name = request.params["mapping"]
    return Step(200, Mappings().schema(name), _XML) if name in NAMES else FAILURES["not_there"]


def _form(request: RecordedRequest) -> dict[str, bytes]:
    """Return the parts of the form by name. Unreadable parts are left out."""
    _, _, boundary = request.headers.get("content-type").partition("boundary=")
    if not boundary:
        return {}
    parts = request.body.split(b"--" + boundary.strip('"').encode())
    matches = (_PART.search(part) for part in parts)
    return {match[1].decode("utf-8", "replace"): match[2] for match in matches if match is not None}
