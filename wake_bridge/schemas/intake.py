"""What `/api/inbox` accepts: an item of ours, and the bodies that GitHub, Alertmanager and A2A agents send by themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field
from pydantic import ValidationError as _ValidationError

from wake_bridge.domain.events import ItemMode, ItemPriority, ItemState, ItemTier
from wake_bridge.domain.items import ItemDraft
from wake_bridge.domain.names import IDENTITY_PATTERN, Identity
from wake_bridge.schemas.incoming import NotAWake

MOST_ALERTS: Final = 100
"""Alerts of one body of Alertmanager's; its `max_alerts` sets how many it sends."""

_LONGEST_METADATA: Final = 8 * 1024
_SHORT: Final = 256
_LINE: Final = 500

_FAILED: Final = frozenset({"failure", "timed_out", "startup_failure", "action_required"})
_PRIORITY_OF_SEVERITY: Final = {
    "critical": ItemPriority.CRITICAL,
    "page": ItemPriority.CRITICAL,
    "error": ItemPriority.HIGH,
    "high": ItemPriority.HIGH,
    "info": ItemPriority.LOW,
    "none": ItemPriority.LOW,
}
_NEEDS_SOMEBODY: Final = frozenset({"failed", "rejected", "input-required", "auth-required"})


def _bounded(metadata: dict[str, Any]) -> dict[str, Any]:
    if len(json.dumps(metadata)) > _LONGEST_METADATA:
        raise ValueError(f"has more than {_LONGEST_METADATA} bytes")
    return metadata


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


Short = Annotated[str, Field(max_length=_SHORT)]


class IncomingItem(BaseModel):
    """An item; names as in the JSON that `inbox` prints, or with underscores. Unknown ones are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    identity: Annotated[str, Field(pattern=rf"^{IDENTITY_PATTERN.pattern}$")] = Field(
        validation_alias=AliasChoices("identity", "agentIdentity", "to")
    )
    text: Annotated[str, AfterValidator(_said)]
    source: Short = ""
    mode: ItemMode | None = None
    tier: ItemTier | None = None
    priority: ItemPriority = ItemPriority.NORMAL
    key: Short = Field("", validation_alias=AliasChoices("key", "dedup_key", "dedupKey"))
    state: ItemState = ItemState.NONE
    directive: Annotated[str, Field(max_length=2000)] = ""
    tone_hint: Short = Field("", validation_alias=AliasChoices("tone_hint", "toneHint"))
    session_id: Short = Field("", validation_alias=AliasChoices("session_id", "sessionId"))
    channel_id: Short = Field("", validation_alias=AliasChoices("channel_id", "channelId"))
    metadata: Annotated[dict[str, Any], AfterValidator(_bounded)] = Field(default_factory=dict)

    def draft(self, source: str) -> ItemDraft:
        """The item as its source's."""
        return ItemDraft(
            Identity(self.identity),
            source,
            self.text,
            self.mode,
            self.tier,
            self.priority,
            self.key,
            self.state,
            directive=self.directive,
            tone_hint=self.tone_hint,
            session_id=self.session_id,
            channel_id=self.channel_id,
            metadata=json.dumps(self.metadata),
        )


def read_item(body: bytes) -> IncomingItem:
    """Read an item. Raises `NotAWake`, naming the field."""
    try:
        return IncomingItem.model_validate_json(body)
    except _ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise NotAWake(".".join(map(str, first["loc"])), str(first["msg"])) from None


def read_object(body: bytes) -> Mapping[str, Any]:
    """Read any JSON object. Raises `NotAWake`."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise NotAWake("", "the body is no JSON") from None
    if not isinstance(found, dict):
        raise NotAWake("", "the body is no JSON object")
    return found


def items_of_github(
    event: str, delivery: str, body: Mapping[str, Any], to: Identity, source: str
) -> Sequence[ItemDraft]:
    """The items of one of GitHub's events; none for one that tells nothing, such as a run that only begins.

    Args:
        event: the header `X-GitHub-Event`.
        delivery: the header `X-GitHub-Delivery`.
        body: what GitHub posted.
        to: whom it is for.
        source: the source.
    """
    repository = _text(body, "repository", "full_name") or "a repository"
    action, by = _text(body, "action"), _text(body, "sender", "login") or "somebody"
    if event in {"workflow_run", "check_suite", "check_run"}:
        return _finished_run(body.get(event), action, repository, to, source)
    return [
        ItemDraft(
            to,
            source,
            _words_of_github(event, action, by, repository, body)[:_LINE],
            key=f"github:{delivery}"[:_SHORT] if delivery else "",
            metadata=json.dumps({"event": event[:_SHORT], "repository": repository[:_SHORT]}),
        )
    ]


def _finished_run(run: Any, action: str, repository: str, to: Identity, source: str) -> Sequence[ItemDraft]:
    """What a run ended with: a failure opens a matter, a success resolves it."""
    found = run if isinstance(run, dict) else {}
    conclusion = _text(found, "conclusion")
    if action != "completed" or not conclusion:
        return []
    name = _text(found, "name") or _text(found, "app", "slug") or "checks"
    branch = _text(found, "head_branch") or _text(found, "check_suite", "head_branch") or "a branch"
    url = _text(found, "html_url") or _text(found, "url")
    is_failed = conclusion in _FAILED
    state = ItemState.OPEN if is_failed else ItemState.RESOLVED if conclusion == "success" else ItemState.NONE
    return [
        ItemDraft(
            to,
            source,
            f"{name} on {branch} of {repository}: {conclusion} {url}".strip()[:_LINE],
            priority=ItemPriority.HIGH if is_failed else ItemPriority.NORMAL,
            key=f"github:{repository}:{name}:{branch}"[:_SHORT],
            state=state,
            metadata=json.dumps({"repository": repository[:_SHORT], "branch": branch[:_SHORT]}),
        )
    ]


def _words_of_github(event: str, action: str, by: str, repository: str, body: Mapping[str, Any]) -> str:
    if event == "push":
        commits = body.get("commits")
        pushed = len(commits) if isinstance(commits, list) else 0
        branch = _text(body, "ref").removeprefix("refs/heads/")
        subject = _text(body, "head_commit", "message").partition("\n")[0]
        return f"{by} pushed {pushed} commits to {branch} of {repository}: {subject}"
    about = "pull_request" if event.startswith("pull_request") else "issue" if event.startswith("issue") else ""
    if about:
        title, url = _text(body, about, "title"), _text(body, about, "html_url")
        number = _text(body, about, "number")
        what = event.replace("_", " ")
        said = _text(body, "comment", "body") or _text(body, "review", "state")
        return f"{what} {action} by {by}: #{number} {title} {url} {said}".strip()
    return f"{event.replace('_', ' ')} {action} in {repository} by {by}".replace("  ", " ")


def items_of_alertmanager(body: Mapping[str, Any], to: Identity, source: str) -> Sequence[ItemDraft]:
    """An item for each alert of Alertmanager's body of version 4, by its fingerprint.

    Raises:
        NotAWake: it is no such body.
    """
    alerts = body.get("alerts")
    if not isinstance(alerts, list) or not alerts:
        raise NotAWake("alerts", "there are no alerts")
    if len(alerts) > MOST_ALERTS:
        raise NotAWake("alerts", f"there are more than {MOST_ALERTS}: set max_alerts in Alertmanager")
    return [_alert(one, number, to, source) for number, one in enumerate(alerts)]


def _alert(alert: Any, number: int, to: Identity, source: str) -> ItemDraft:
    fingerprint = _text(alert, "fingerprint")
    status = _text(alert, "status")
    if not fingerprint or status not in {"firing", "resolved"}:
        raise NotAWake(f"alerts.{number}", "needs a fingerprint, and the status firing or resolved")
    labels = alert.get("labels") if isinstance(alert.get("labels"), dict) else {}
    name = _text(labels, "alertname") or "alert"
    said = _text(alert, "annotations", "summary") or _text(alert, "annotations", "description")
    where = ", ".join(f"{key}={value}" for key, value in labels.items() if key in {"instance", "job", "service"})
    text = f"{name} is {status}: {said or where or 'no summary'}"
    return ItemDraft(
        to,
        source,
        text[:_LINE],
        priority=_PRIORITY_OF_SEVERITY.get(_text(labels, "severity").lower(), ItemPriority.NORMAL),
        key=f"alertmanager:{fingerprint}"[:_SHORT],
        state=ItemState.OPEN if status == "firing" else ItemState.RESOLVED,
        metadata=json.dumps({"labels": {str(key)[:_SHORT]: str(labels[key])[:_SHORT] for key in list(labels)[:30]}}),
    )


def items_of_a2a(body: Mapping[str, Any], to: Identity, source: str) -> Sequence[ItemDraft]:
    """The item of a push notification of an A2A agent: a task as it stands now, or a move of it.

    Raises:
        NotAWake: it tells of no task.
    """
    found: Any = next((body[one] for one in ("task", "statusUpdate", "status_update") if one in body), body)
    task = _text(found, "id") or _text(found, "taskId") or _text(found, "task_id")
    state = _text(found, "status", "state").lower().removeprefix("task_state_").replace("_", "-")
    if not task or not state:
        raise NotAWake("status", "tells of no task and its state")
    parts = _at(found, "status", "message", "parts")
    said = " ".join(filter(None, (_text(one, "text") for one in (parts if isinstance(parts, list) else ()))))
    return [
        ItemDraft(
            to,
            source,
            f"task {task} is {state}: {said}".rstrip(": ")[:_LINE],
            priority=ItemPriority.HIGH if state in _NEEDS_SOMEBODY else ItemPriority.NORMAL,
            key=f"a2a:{task}"[:_SHORT],
            metadata=json.dumps({"task": task[:_SHORT], "context": _text(found, "contextId")[:_SHORT]}),
        )
    ]


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: Any, *names: str) -> str:
    """A text or a number at that place, in one line; empty where there is none."""
    found = _at(value, *names)
    is_number = isinstance(found, int) and not isinstance(found, bool)
    return " ".join(found.split()) if isinstance(found, str) else str(found) if is_number else ""
