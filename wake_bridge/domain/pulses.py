"""Heartbeat pulses: log rows without a node behind them, whose id may carry a reason."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from wake_bridge.domain.events import PulseDetail
from wake_bridge.domain.messages import Unusable, text_of
from wake_bridge.domain.names import Identity, is_identity

PULSE_PREFIX: Final = "HEARTBEAT_PULSE:"

_LONGEST_REASON: Final = 16_384


def pulse_from(entity_id: str) -> tuple[Identity, PulseDetail] | Unusable:
    """Whom a pulse is for, and what it says. The identity reaches up to the last colon. Never raises."""
    login, _, pulse_id = entity_id.removeprefix(PULSE_PREFIX).rpartition(":")
    if not entity_id.startswith(PULSE_PREFIX) or not is_identity(login) or not pulse_id:
        return Unusable("the pulse names no identity")
    source, reason, next_action = _reason_in(pulse_id)
    return Identity(login), PulseDetail(pulse_id, source=source, reason=reason, next_action=next_action)


def _reason_in(pulse_id: str) -> tuple[str, str, str]:
    """Source, reason and next action from `<source>.<base64url(JSON)>`; empty where the id is plain or untrue."""
    source, _, encoded = pulse_id.partition(".")
    if not encoded or len(encoded) > _LONGEST_REASON:
        return "", "", ""
    try:
        said = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (ValueError, RecursionError):
        return "", "", ""
    if not isinstance(said, Mapping) or said.get("source") != source:
        return "", "", ""
    latest = said.get("latest")
    inner: Mapping[str, Any] = latest if isinstance(latest, Mapping) else {}
    reason = text_of(said.get("reason")) or text_of(inner.get("reason"))
    return text_of(source), reason, text_of(said.get("nextAction")) or text_of(inner.get("title"))
