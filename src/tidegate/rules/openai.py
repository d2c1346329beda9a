"""OpenAI and compatible gateways: the code decides, then the type. Some put their errors into a 200."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.durations import seconds
from tidegate.faults.codes import from_rows
from tidegate.faults.confirm import Confirm
from tidegate.faults.evidence import Evidence
from tidegate.faults.fault import Reach
from tidegate.faults.rule import ANY, Pack, Rule
from tidegate.rules.common import NEVER_THERE, NEVER_WORKED, NO_SERVICE, WEB_PAGE
from tidegate.validation import JsonObject

_QUOTA = frozenset(
    {
        "insufficient_quota",
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
    }
)
_TOO_FAST = frozenset({"rate_limit_exceeded", "rate_limit_error", "slow_down", "requests", "tokens", "429"})
_KEY = frozenset({"invalid_api_key", "authentication_error", "401"})
_MODEL = frozenset({"model_not_found", "model_not_allowed"})
_REGION = frozenset({"unsupported_country_region_territory"})
_OVERLOADED = frozenset({"server_is_overloaded", "service_unavailable_error", "503"})
_REQUEST = frozenset({"context_length_exceeded", "invalid_request_error", "400"})
_KNOWN = _QUOTA | _TOO_FAST | _KEY | _MODEL | _REGION | _OVERLOADED | _REQUEST
_UNKNOWN = "an unknown code"

_IN_200 = (0, 200)
_COMPLETIONS = "/chat/completions"
_HEAD = 512  # bytes: errors and choices begin here, and a good response may be long


def _code(evidence: Evidence) -> str | None:
    """Returns the code of the error if it is known, else its type."""
    head = evidence.body[:_HEAD]
    if b'"error"' not in head and b'"type"' not in head:
        return None
    document = evidence.json
    if not isinstance(document, Mapping):
        return None
    # A client that parsed the response stores only the inner object.
    error = document.get("error", document if {"code", "type"} <= document.keys() else None)
    if not isinstance(error, Mapping):
        return _UNKNOWN if error else None
    named = [str(error.get(field)) for field in ("code", "type")]
    return next((name for name in named if name in _KNOWN), _UNKNOWN)


def _in_words(evidence: Evidence) -> bool:
    """There is no readable code, and no mention of a rate limit."""
    return _code(evidence) is None and b"rate_limit_exceeded" not in evidence.body


def _choice(evidence: Evidence) -> JsonObject | None:
    """Returns the first choice of a completion. Empty without one, None for any other response."""
    document = evidence.json if b'"choices"' in evidence.body[:_HEAD] else None
    choices = document.get("choices") if isinstance(document, Mapping) else None
    if not isinstance(choices, list):
        return None
    return choices[0] if choices and isinstance(choices[0], Mapping) else {}


def _declined(evidence: Evidence) -> bool:
    """The model declined, or a filter stepped in."""
    choice = _choice(evidence)
    if not choice:
        return False
    return choice.get("finish_reason") == "content_filter" or bool((choice.get("message") or {}).get("refusal"))


def _empty(evidence: Evidence) -> bool:
    """A completion without a choice, or a choice with nothing in it."""
    choice = _choice(evidence)
    if choice is None:
        return False
    message = choice.get("message")
    if message is None:
        return not choice  # a choice of another shape, such as plain text
    return all(message.get(field) is None for field in ("content", "tool_calls", "function_call", "audio"))


def _cut(evidence: Evidence) -> bool:
    """JSON was wanted, and the room for it ran out."""
    choice = _choice(evidence)
    if not choice or choice.get("finish_reason") != "length":
        return False
    content = (choice.get("message") or {}).get("content")
    return isinstance(content, str) and content.lstrip().startswith(("{", "[", "```json"))


def _until_reset(evidence: Evidence) -> float | None:
    """Seconds to the later of the announced resets, of those that have nothing left if any."""
    waits: dict[bool, list[float]] = {True: [], False: []}
    for limit in ("requests", "tokens"):
        reset = evidence.header(f"x-ratelimit-reset-{limit}")
        if reset is not None:
            waits[evidence.header(f"x-ratelimit-remaining-{limit}") == "0"].append(seconds(reset))
    return max(waits[True] or waits[False], default=None)


openai = Pack(
    "openai",
    [
        WEB_PAGE,
        Rule(name="quota", code="quota_exhausted", status=(0, 200, 403, 429), says=_QUOTA),
        Rule(name="quota-in-words", code="quota_exhausted", status=429, text=tuple(sorted(_QUOTA)), test=_in_words),
        # The largest requests exceed the limit of any minute.
        Rule(name="request-too-large", code="request_too_large", status=(0, 429), text="request too large"),
        Rule(name="told-to-stop", code="refused_for_good", status=(408, 409, 429, *range(500, 600)),
             header={"x-should-retry": "false"}),
        Rule(name="told-to-retry", code="upstream_failure", status=range(400, 429), header={"x-should-retry": "true"},
             reach=Reach.OPERATION),
        Rule(name="too-fast", code="rate_limited", status=429, reach=Reach.TARGET, after=_until_reset),
        Rule(name="key-refused", code="unauthorized", status=401, reach=Reach.TARGET),
        Rule(name="region", code="region_refused", status=(0, 200, 403), says=_REGION),
        Rule(name="model-refused", code="model_refused", status=403),
        Rule(name="model-missing", code="model_refused", status=(0, 200, 404), says=_MODEL),
        Rule(name="model-missing-in-words", code="model_refused", status=404, text="model", path=_COMPLETIONS),
        Rule(name="not-the-service", code="no_service", status=404, path=_COMPLETIONS),
        Rule(name="key-refused-in-200", code="unauthorized", status=_IN_200, says=_KEY, reach=Reach.TARGET),
        Rule(name="too-fast-in-200", code="rate_limited", status=_IN_200, says=_TOO_FAST, reach=Reach.TARGET,
             after=_until_reset),
        Rule(name="overloaded-in-200", code="overloaded", status=_IN_200, says=_OVERLOADED),
        Rule(name="bad-request-in-200", code="bad_request", status=_IN_200, says=_REQUEST),
        Rule(name="error-in-200", code="upstream_failure", status=200, says=ANY),
        Rule(name="declined", code=None, status=200, test=_declined),
        Rule(name="cut", code="answer_cut", status=200, test=_cut),
        Rule(name="empty", code="no_completion", status=200, test=_empty),
    ],
    says=_code,
    codes=from_rows(
        ("request_too_large", "item", "item", "WARN", "This request is larger than the plan allows at once.",
         "Make the entry shorter, or raise the limit; the others go on."),
        ("refused_for_good", "item", "item", "WARN", "The service refused this one request and asked not to repeat it.",
         "Check the entry; the others go on."),
        ("region_refused", "config", "target", "ERROR", "The service does not serve the region that we call from.",
         "The operator must call it from a region that is served."),
        ("model_refused", "config", "operation", "ERROR", "This model does not exist, or the key may not use it.",
         "The operator must choose another model or allow it for the key."),
        ("answer_cut", "item", "item", "WARN", "The model ran out of room before its answer was complete.",
         "Make the entry shorter, or allow a longer answer."),
        ("no_completion", "transient", "operation", "WARN", "The model sent no answer.",
         "Nothing to do: it is tried once more."),
        NO_SERVICE,
    ),
    confirm=[
        NEVER_WORKED,
        NEVER_THERE,
        Confirm("no_completion", times=2, apart=0, becomes="bad_request", until_then="no_completion"),
    ],
)  # fmt: skip
