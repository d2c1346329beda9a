"""An OpenAI: it tags artists, and says "429" both for haste and for an empty purse."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import ClassVar

from tidegate.testing import RecordedRequest, Simulator, Step
from tidegate_apps.music.simulators.service import Fault, Service

KEY = "simulated-openai-key"
_TAGS = ("ambient", "folk", "harbour pop", "dub", "choral", "post-rock", "sea shanty", "electronic")


def error(status: int, code: str | None, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Step:
    """In its usual form."""
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return Step(status, body, {"x-request-id": "req_simulated", **(headers or {})})


def _completion(content: str | None, finish: str = "stop", refusal: str | None = None) -> Step:
    message = {"role": "assistant", "content": content, "refusal": refusal}
    usage = {"prompt_tokens": 90, "completion_tokens": 30, "total_tokens": 120}
    choices = [{"index": 0, "message": message, "finish_reason": finish}]
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": choices,
        "usage": usage,
    }
    return Step(200, body, {"x-request-id": "req_simulated"})


_EACH = 20  # tokens for an artist
_QUOTA = "You exceeded your current quota, please check your plan and billing details."
_SPENT = {
    code: error(429, code, "insufficient_quota", _QUOTA)
    for code in (
        "insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded", "organization_usage_limit_exceeded",
    )
}  # fmt: skip


class OpenAiService(Service):
    """*unknown*: artists that the model knows nothing of; *too_long*: those whose request is larger than allowed.

    *refuses*: names in a request that it does not take, as some gateways do not.
    """

    name = "openai"
    faults: ClassVar[Mapping[str, Fault]] = {
        **_SPENT,
        "rate_limit": error(429, "rate_limit_exceeded", "requests", "Rate limit reached for requests", {
            "retry-after-ms": "20000", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s",
        }),
        "slow_down": error(429, "slow_down", "tokens", "Please slow down."),
        "request_too_large": error(429, "rate_limit_exceeded", "tokens", "Request too large for m on tokens per min."),
        "key_invalid": error(401, "invalid_api_key", "invalid_request_error", "Incorrect API key provided."),
        "region": error(403, "unsupported_country_region_territory", "request_forbidden", "Country not supported"),
        "model_not_found": error(404, "model_not_found", "invalid_request_error", "The model does not exist"),
        "too_long": error(400, "context_length_exceeded", "invalid_request_error", "Too many tokens"),
        "conflict": error(409, None, "conflict", "Try again"),
        "unprocessable": error(422, None, "invalid_request_error", "Unprocessable"),
        "server_error": error(500, None, "server_error", "The server had an error"),
        "overloaded": error(503, "server_is_overloaded", "service_unavailable_error", "Overloaded"),
        "told_to_stop": error(500, None, "server_error", "Do not retry", {"x-should-retry": "false"}),
        "quota_in_200": error(200, "insufficient_quota", "insufficient_quota", _QUOTA),
        "no_choices": Step(200, {"id": "x", "object": "chat.completion", "choices": []}),
        "no_content": _completion(None),
        "cut_by_length": _completion('{"1": ["amb', "length"),
        "content_filter": _completion(None, "content_filter"),
        "refusal": _completion(None, refusal="I cannot help with that."),
        "babble": _completion("Sure! Here are your tags."),
    }  # fmt: skip

    def begin(self) -> None:
        super().begin()
        self.unknown: set[str] = set()
        self.too_long: set[str] = set()
        self.refuses: set[str] = set()
        self.thinks = 0  # tokens before each answer
        self.tagged: list[str] = []  # artists, in the order in which they were asked for

    def mount(self, sim: Simulator) -> None:
        self._route(sim, "models", "GET /v1/models", self._models)
        self._route(sim, "chat", "POST /v1/chat/completions", self._chat)

    def tags(self, name: str) -> list[str]:
        """What the model says of an artist."""
        first = hashlib.sha256(name.encode()).digest()[0]
        return [] if name in self.unknown else [_TAGS[(first + step) % len(_TAGS)] for step in (0, 3)]

    def _models(self, request: RecordedRequest) -> object:
        return self._kept_out(request) or {"object": "list", "data": [{"id": "gpt-6-luna", "object": "model"}]}

    def _chat(self, request: RecordedRequest) -> object:
        if (no := self._kept_out(request)) is not None:
            return no
        if refused := self.refuses & request.json.keys():
            return Step(400, {"error": f"'{min(refused)}' is not supported"})
        names = json.loads(request.json["messages"][-1]["content"])
        if self.too_long & set(names.values()):
            return self.faults["too_long"]
        if self.thinks + _EACH * len(names) > request.json.get("max_completion_tokens", 10**6):
            return self.faults["cut_by_length"]
        self.tagged += names.values()
        return _completion(json.dumps({number: self.tags(name) for number, name in names.items()}))

    def _kept_out(self, request: RecordedRequest) -> Fault | None:
        return None if request.headers.get("authorization") == f"Bearer {KEY}" else self.faults["key_invalid"]
