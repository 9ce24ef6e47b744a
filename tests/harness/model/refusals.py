"""How the vendors refuse a request: the status, the headers and the body of each, as their servers send them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from tests.harness.model.anthropic import Anthropic
from tests.harness.model.gemini import Gemini
from tests.harness.model.protocols import ModelProtocol

Answer = tuple[int, Mapping[str, str], Mapping[str, Any]]
"""Status, headers, body."""

TOO_MANY: Final = 429


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why everything is refused: a plain status and words, or the limit of an account.

    `resets_at` is in seconds since 1970; None where the server does not say.
    """

    status: int
    words: str
    is_limit: bool = False
    resets_at: int | None = None


BAD_REQUEST: Final = Refusal(400, "Mock bad request")
RATE_LIMITED: Final = Refusal(TOO_MANY, "Mock too many requests")
OVERLOADED: Final = Refusal(529, "Overloaded")


def usage_limit(resets_at: float | None) -> Refusal:
    """An account at its limit."""
    return Refusal(TOO_MANY, "Mock limit", is_limit=True, resets_at=None if resets_at is None else int(resets_at))


def refused(protocol: ModelProtocol, why: Refusal) -> Answer:
    """What a server of that protocol answers."""
    if isinstance(protocol, Anthropic):
        return _anthropic(why)
    return _gemini(why) if isinstance(protocol, Gemini) else _openai(why)


def _wait(why: Refusal) -> int:
    return max(1, int((why.resets_at or 0) - time.time()))


def _anthropic(why: Refusal) -> Answer:
    kinds = {400: "invalid_request_error", TOO_MANY: "rate_limit_error", 529: "overloaded_error"}
    body = {
        "type": "error",
        "error": {"type": kinds.get(why.status, "api_error"), "message": why.words},
        "request_id": "req_mock",
    }
    if not why.is_limit:
        return why.status, {}, body
    unified = "anthropic-ratelimit-unified"
    headers = {
        f"{unified}-status": "rejected",
        f"{unified}-representative-claim": "five_hour",
        f"{unified}-5h-status": "rejected",
        f"{unified}-5h-utilization": "1.0",
        f"{unified}-overage-status": "rejected",
        f"{unified}-overage-disabled-reason": "org_level_disabled",
        "x-should-retry": "false",
    }
    if why.resets_at is not None:
        at = str(why.resets_at)
        headers |= {f"{unified}-reset": at, f"{unified}-5h-reset": at, "retry-after": str(_wait(why))}
    return why.status, headers, body


def _openai(why: Refusal) -> Answer:
    if why.is_limit:
        error: dict[str, Any] = {
            "type": "usage_limit_reached",
            "message": "The usage limit has been reached",
            "plan_type": "plus",
            "code": "usage_limit_reached",
        }
        headers = {"x-codex-primary-used-percent": "100", "x-codex-primary-window-minutes": "300"}
        if why.resets_at is not None:
            error |= {"resets_at": why.resets_at, "resets_in_seconds": _wait(why)}
            headers["x-codex-primary-reset-at"] = str(why.resets_at)
        return why.status, headers, {"error": error}
    kinds = {400: "invalid_request_error", TOO_MANY: "rate_limit_error"}
    error = {"type": kinds.get(why.status, "server_error"), "message": why.words, "param": None, "code": None}
    return 503 if why.status == OVERLOADED.status else why.status, {}, {"error": error}


def _gemini(why: Refusal) -> Answer:
    status = 503 if why.status == OVERLOADED.status else why.status
    names = {400: "INVALID_ARGUMENT", TOO_MANY: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
    details: list[dict[str, Any]] = []
    if why.is_limit:
        quota = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "250"}
        details.append({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [quota]})
        if why.resets_at is not None:
            info = {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "QUOTA_EXHAUSTED",
                "domain": "cloudcode-pa.googleapis.com",
                "metadata": {"quotaResetTimeStamp": datetime.fromtimestamp(why.resets_at, UTC).isoformat()},
            }
            retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{_wait(why)}s"}
            details += [info, retry]
    error = {
        "code": status,
        "message": why.words,
        "status": names.get(status, "INTERNAL"),
        "details": details,
    }
    return status, {}, {"error": error}
