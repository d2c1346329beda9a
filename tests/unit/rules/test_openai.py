"""OpenAI and gateways that speak like it."""

from __future__ import annotations

import json

import httpx2
import openai as client
import pytest

from tests.unit.rules.case import GOOD, Answer, Case, answer, check, page
from tidegate.faults.classification import classify
from tidegate.rules import openai

PACK = openai
CHAT = "https://api.openai.com/v1/chat/completions"


def error(status: int, code: object, type_: str = "", message: str = "no", **headers: str) -> Answer:
    return answer(status, {"error": {"message": message, "type": type_, "param": None, "code": code}}, CHAT, **headers)


def completion(finish: str = "stop", **message: object) -> Answer:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return answer(200, {"id": "x", "object": "chat.completion", "choices": [choice]}, CHAT)


def in_words(code: str) -> str:
    """As the exceptions of OpenAI's own client read, when nothing but their text is left."""
    body = {"error": {"message": "no", "type": "insufficient_quota", "param": None, "code": code}}
    return f"Error code: 429 - {body}"


MISTAKE, QUOTA, SLOW_DOWN = "fatal/item/item", "fatal/quota/target", "retriable/throttled/target"
PASSING, MODEL, KEY = "retriable/transient/target", "fatal/config/operation", "fatal/auth/target"

CASES = [
    Case("200, a completion", completion(content="Hello"), GOOD),
    Case("200, a call of a tool", completion("tool_calls", content=None, tool_calls=[{"id": "1"}]), GOOD),
    Case("200, a list of models", answer(200, {"data": [{"id": "gpt"}]}, CHAT), GOOD),
    Case("200, content speaks of an error", completion(content='{"error": "request too large"}'), GOOD),
    Case("400 invalid_request_error", error(400, None, "invalid_request_error"), MISTAKE, "bad_request", "status:400"),
    Case("400 context_length_exceeded", error(400, "context_length_exceeded", "invalid_request_error"), MISTAKE,
         "bad_request", "status:400"),
    Case("401 incorrect key", error(401, "invalid_api_key", "invalid_request_error"), KEY, "unauthorized",
         "key-refused"),
    Case("401 not a member of an organisation", error(401, None, "invalid_request_error", "You must be a member"), KEY,
         "unauthorized", "key-refused"),
    Case("401 IP not authorised", error(401, "ip_not_authorized"), KEY, "unauthorized", "key-refused"),
    Case("403 region unsupported", error(403, "unsupported_country_region_territory", "request_forbidden"),
         "fatal/config/target", "region_refused", "region"),
    Case("403 model not allowed", error(403, "model_not_found"), MODEL, "model_refused", "model-refused"),
    Case("404 model_not_found", error(404, "model_not_found", "invalid_request_error"), MODEL, "model_refused",
         "model-missing"),
    Case("404 of a gateway that has no such model", error(404, None, "api_error", "model 'x' not found"), MODEL,
         "model_refused", "model-missing-in-words"),
    Case("404 of a wrong path", error(404, None, "invalid_request_error", "Invalid URL"), "retriable/transient/target",
         "no_service", "not-the-service"),
    Case("404 of another server", answer(404, b"", CHAT), "retriable/transient/target", "no_service",
         "not-the-service"),
    Case("404 of something else", answer(404, b"", "https://api.openai.com/v1/files/x"), MISTAKE, "not_found",
         "status:404"),
    Case("408", error(408, None), PASSING, "timeout", "status:408"),
    Case("409", error(409, None), "retriable/transient/item", "conflict", "status:409"),
    Case("422", error(422, None), MISTAKE, "bad_request", "status:422"),
    Case("429 code rate_limit_exceeded", error(429, "rate_limit_exceeded", "requests"), SLOW_DOWN, "rate_limited",
         "too-fast"),
    Case("429 type rate_limit_exceeded", error(429, None, "rate_limit_exceeded"), SLOW_DOWN, "rate_limited",
         "too-fast"),
    Case("429 code slow_down", error(429, "slow_down", retry_after="20"), SLOW_DOWN, "rate_limited", "too-fast",
         retry_after=20.0),
    Case("429 that nothing explains", answer(429, b"", CHAT), SLOW_DOWN, "rate_limited", "too-fast"),
    Case("429 whose body broke off", answer(429, b'{"error": {"code": "insuff', CHAT), SLOW_DOWN, "rate_limited",
         "too-fast"),
    Case("429 with reset headers",
         error(429, "rate_limit_exceeded", x_ratelimit_reset_requests="1s", x_ratelimit_reset_tokens="6m0s"),
         SLOW_DOWN, "rate_limited", "too-fast", retry_after=360.0),
    Case("429 with reset headers, the requests used up",
         error(429, "rate_limit_exceeded", x_ratelimit_reset_requests="1s", x_ratelimit_remaining_requests="0",
               x_ratelimit_reset_tokens="6m0s", x_ratelimit_remaining_tokens="900"),
         SLOW_DOWN, "rate_limited", "too-fast", retry_after=1.0),
    Case("429 with nonsense in the reset headers", error(429, "rate_limit_exceeded", x_ratelimit_reset_tokens="soon"),
         SLOW_DOWN, "rate_limited", "too-fast"),
    Case("429 with Retry-After: 0", error(429, "rate_limit_exceeded", retry_after="0"), SLOW_DOWN, "rate_limited",
         "too-fast"),
    Case("429 with retry-after-ms", error(429, "rate_limit_exceeded", retry_after_ms="1500"), SLOW_DOWN,
         "rate_limited", "too-fast", retry_after=1.5),
    Case("429 insufficient_quota (looks like a rate limit)", error(429, "insufficient_quota", "insufficient_quota"),
         QUOTA, "quota_exhausted", "quota"),
    Case("429 quota by type only", error(429, None, "insufficient_quota"), QUOTA, "quota_exhausted", "quota"),
    Case("429 quota by type, unknown code", error(429, "new_in_2027", "insufficient_quota"), QUOTA, "quota_exhausted",
         "quota"),
    Case("429 rate limit by code, type insufficient_quota", error(429, "rate_limit_exceeded", "insufficient_quota"),
         SLOW_DOWN, "rate_limited", "too-fast"),
    *(Case(f"429 {code}", error(429, code, "insufficient_quota"), QUOTA, "quota_exhausted", "quota")
      for code in ("credit_balance_exhausted", "organization_spend_limit_exceeded", "project_spend_limit_exceeded",
                   "organization_usage_limit_exceeded")),
    Case("429 Request too large", error(429, "rate_limit_exceeded", "tokens", "Request too large for gpt-x in org-y"),
         MISTAKE, "request_too_large", "request-too-large"),
    Case("x-should-retry: false on a 429", error(429, "rate_limit_exceeded", x_should_retry="false"), MISTAKE,
         "refused_for_good", "told-to-stop"),
    Case("x-should-retry: false on a 500", error(500, None, x_should_retry="false"), MISTAKE, "refused_for_good",
         "told-to-stop"),
    Case("x-should-retry: false beside a used up quota", error(429, "insufficient_quota", x_should_retry="false"),
         QUOTA, "quota_exhausted", "quota"),
    Case("x-should-retry: true on a 400", error(400, None, x_should_retry="true"), "retriable/transient/operation",
         "upstream_failure", "told-to-retry"),
    Case("500", error(500, None, "server_error"), PASSING, "upstream_failure", "status:500"),
    Case("503 server_is_overloaded", error(503, "server_is_overloaded", "service_unavailable_error"),
         "retriable/overloaded/target", "overloaded", "status:503"),
    Case("200 with an error: quota", error(200, "insufficient_quota"), QUOTA, "quota_exhausted", "quota"),
    Case("200 with an error: rate", error(200, "429", "rate_limit_error"), SLOW_DOWN, "rate_limited",
         "too-fast-in-200"),
    Case("200 with an error: key", error(200, "invalid_api_key"), KEY, "unauthorized", "key-refused-in-200"),
    Case("200 with an error: model", error(200, "model_not_found"), MODEL, "model_refused", "model-missing"),
    Case("200 with an error: load", error(200, "server_is_overloaded"), "retriable/overloaded/target", "overloaded",
         "overloaded-in-200"),
    Case("200 with an error: request", error(200, "context_length_exceeded"), MISTAKE, "bad_request",
         "bad-request-in-200"),
    Case("200 with an error: unknown", error(200, None, "new_in_2027"), PASSING, "upstream_failure", "error-in-200"),
    Case("200 with an error that is a text", answer(200, {"error": "oops"}, CHAT), PASSING, "upstream_failure",
         "error-in-200"),
    Case("200, choices empty", answer(200, {"id": "x", "choices": []}, CHAT), "retriable/transient/operation",
         "no_completion", "empty"),
    Case("200, content null", completion(content=None), "retriable/transient/operation", "no_completion", "empty"),
    Case("200, finish_reason length in JSON", completion("length", content='{"tags": ["ro'), MISTAKE, "answer_cut",
         "cut"),
    Case("200, finish_reason length in prose", completion("length", content="Once upon a"), GOOD),
    Case("200, content_filter", completion("content_filter", content=None), GOOD, rule="declined"),
    Case("200, refusal", completion(content=None, refusal="I cannot"), GOOD, rule="declined"),
    Case("HTML from a proxy", page(200, CHAT), PASSING, "html_answer", "web-page"),
    Case("a quota in a message", RuntimeError(f"HTTP 429: {json.dumps({'error': {'code': 'insufficient_quota'}})}"),
         QUOTA, "quota_exhausted", "quota"),
    Case("a quota in words", RuntimeError("openai API returned status 429: insufficient_quota"), QUOTA,
         "quota_exhausted", "quota-in-words"),
    Case("a quota in the words of the client", RuntimeError(in_words("insufficient_quota")), QUOTA, "quota_exhausted",
         "quota-in-words"),
    Case("a rate limit in the words of the client", RuntimeError(in_words("rate_limit_exceeded")), SLOW_DOWN,
         "rate_limited", "too-fast"),
    Case("timeout after the request was sent", TimeoutError("read timed out"), PASSING, "timeout", "kind:timeout"),
]  # fmt: skip


@pytest.mark.req("SYNC-04")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_answer_means_what_openai_means_by_it(case: Case) -> None:
    check(case, PACK)


@pytest.mark.req("SYNC-04")
def test_an_exception_of_the_official_client_means_the_same_as_its_answer() -> None:
    body = {"error": {"message": "no", "type": "insufficient_quota", "param": None, "code": "insufficient_quota"}}
    response = httpx2.Response(429, json=body, request=httpx2.Request("POST", CHAT))

    fault = classify(client.RateLimitError("no", response=response, body=body["error"]), PACK)

    assert fault is not None
    assert (fault.code, fault.rule) == ("quota_exhausted", "openai:quota")


@pytest.mark.req("SYNC-04")
def test_an_error_in_the_middle_of_a_stream_keeps_only_what_was_inside() -> None:
    inner = {"message": "no", "type": "insufficient_quota", "code": None}

    fault = classify(client.APIError("no", request=httpx2.Request("POST", CHAT), body=inner), PACK)

    assert fault is not None
    assert fault.code == "quota_exhausted"


@pytest.mark.req("SYNC-04")
def test_a_completion_without_content_is_tried_once_more_and_then_left() -> None:
    policy = next(each for each in PACK.confirm if each.code == "no_completion")

    assert (policy.times, policy.until_then, policy.becomes) == (2, "no_completion", "bad_request")
