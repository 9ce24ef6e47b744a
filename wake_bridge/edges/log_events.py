"""The closed list of log event names (DESIGN §9).

A name is added here in the change that first logs it; whoever watches the logs can rely on this page.
"""

from __future__ import annotations

from typing import Final

EVENTS: Final = frozenset(
    {
        # the daemon's own life
        "daemon_started",
        "daemon_stopping",
        "daemon_stopped",
        "job_fell",
        "chore_failed",
        "clock_set",
        "control_dropped",
        "control_refused",
        "config_reloaded",
        "config_refused",
        "config_needs_restart",
        "other_driver",
        "adapter_broken",
        "ledger_damaged",
        "pruned",
        # the tail
        "graph_opened",
        "graph_away",
        "graph_back",
        "graph_replaced",
        "ledger_away",
        "ledger_back",
        "ledger_put_back",
        "reader_healed",
        "no_hints",
        "epoch_began",
        "cursor_lost",
        "cursor_below_log",
        "cursor_unpublished",
        "caught_up",
        "row_quarantined",
        "subscriptions_read",
        "subscription_undeliverable",
        "subscription_defaults_taken",
        "no_active_routes",
        # wake events and deliveries
        "event_matched",
        "event_refused",
        "looked",
        "delivery_held",
        "delivery_locked",
        "delivery_staged",
        "delivery_settled",
        "delivery_acknowledged",
        "delivery_seen_late",
        "delivery_told_again",
        "attempt_refused",
        "attempt_failed",
        "adapter_broke_promise",
        "lane_failed",
        "limit_reached",
        "stale_lease",
        "route_degraded",
        "route_restored",
        "would_deliver",
        # a word to the human
        "notice_given",
        "notice_failed",
        # whom nothing else wakes
        "heartbeat_nudged",
        "heartbeat_skipped",
        # what other libraries say
        "library",
    }
)
