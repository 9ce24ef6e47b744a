"""The osascript adapter on a played desktop: what reaches a process, what is put back, what is said (docs/macos.md)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import wake_bridge_adapters.osascript.plan
from wake_bridge_adapters.osascript import OsascriptAdapter
from wake_bridge_adapters.tables import OsascriptConfig

from wake_bridge.domain.delivery import HoldReason, Progress, Step
from wake_bridge.domain.names import Identity
from wake_bridge.domain.presence import PresenceState, single_vote
from wake_bridge.domain.routing import Address
from wake_bridge.ports.adapter import AdapterContext, Delivered, Nowhere, Place, Refused, Unknown
from wake_bridge.system.clock import SteadyClock

SCRIPTS = Path(wake_bridge_adapters.osascript.plan.__file__).parent / "scripts"
COPIED = "what the person copied"


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake_bridge_adapters.osascript.plan, "SHOWS_WITHIN", 0.5)


def test_a_wake_reaches_the_application_once_and_leaves_the_desktop_as_it_was(desk: Any) -> None:
    """Previous application and clipboard restored; Return after the text was read back."""
    outcome = asyncio.run(desk.deliver())

    state = desk.desktop.read()
    assert isinstance(outcome, Delivered), outcome
    assert state["apps"][str(desk.pid)]["submitted"] == [desk.text]
    assert desk.keys == ["paste", "return"]
    assert state["front"] == 1
    assert state["clipboard"]["text"] == COPIED
    assert desk.steps == [Step.INTENT_STAGE, Step.STAGED, Step.INTENT_SUBMIT, Step.SUBMITTED]


# the scripts of one attempt in order, each with how often it ran before
MOMENTS = [
    ("app_look", 1),
    ("clipboard_kind", 1),
    ("pbpaste", 1),
    ("pbcopy", 1),
    ("app_front", 1),
    ("app_key", 1),
    ("app_look", 2),
    ("app_key", 2),
    ("app_look", 3),
]


@pytest.mark.parametrize(("script", "nth"), MOMENTS, ids=[f"{script}-{nth}" for script, nth in MOMENTS])
def test_focus_stolen_right_before_any_step_means_no_key_for_the_thief(desk: Any, script: str, nth: int) -> None:
    """For every step no key after it, clipboard and front restored, the right outcome."""
    desk.desktop.open_app(2, "Chrome", "com.example.chrome")
    desk.desktop.change_app(2, value="a form half filled in")
    desk.desktop.strike(script, nth, front=2)

    outcome = asyncio.run(desk.deliver())

    state = desk.desktop.read()
    chrome = state["apps"]["2"]
    assert (chrome["value"], chrome["submitted"]) == ("a form half filled in", [])
    assert state["clipboard"]["text"] == COPIED
    submitted = state["apps"][str(desk.pid)]["submitted"]
    if (script, nth) == ("app_look", 3):
        assert isinstance(outcome, Delivered)
        assert len(submitted) == 1
    elif script in {"app_look", "app_key"} and nth == 2:
        assert isinstance(outcome, Unknown)
        assert not submitted
    elif (script, nth) == ("app_look", 1):
        assert isinstance(outcome, Delivered), outcome
    else:
        assert isinstance(outcome, Refused), outcome
        assert not desk.keys
    assert state["front"] == 2


@pytest.mark.parametrize("script", ["app_look", "clipboard_kind", "app_front", "app_key"])
@pytest.mark.parametrize("code", [-1743, -25211, -1712, -1728, -600])
def test_an_error_before_any_key_types_nothing_and_names_the_remedy(desk: Any, script: str, code: int) -> None:
    """Which permission or name to fix."""
    desk.desktop.strike(script, 1, error=[code, "System Events got an error"])

    outcome = asyncio.run(desk.deliver())

    state = desk.desktop.read()
    assert not isinstance(outcome, Delivered)
    assert not state["apps"][str(desk.pid)]["submitted"]
    assert state["clipboard"]["text"] == COPIED
    assert str(code) in str(outcome)


def test_a_script_that_hangs_is_killed_and_the_clipboard_put_back(desk: Any) -> None:
    """A time-out outside; the process group is killed."""
    desk.desktop.strike("app_key", 2, hang=30)

    outcome = asyncio.run(asyncio.wait_for(desk.deliver(), 20))

    assert isinstance(outcome, Unknown)
    assert desk.desktop.read()["clipboard"]["text"] == COPIED
    assert desk.keys == ["paste"]


@pytest.mark.parametrize(
    ("app", "desktop", "reason"),
    [
        ({"value": "half a thought"}, {}, HoldReason.USER_TYPING),
        ({"dialog": True}, {}, HoldReason.WAITING_ON_APPROVAL),
        ({"role": ""}, {}, HoldReason.UNKNOWN),
        ({"role": "AXButton"}, {}, HoldReason.UNKNOWN),
        ({}, {"idle": 2}, HoldReason.USER_TYPING),
        ({}, {"clipboard": {"kind": "other", "text": ""}}, HoldReason.USER_TYPING),
    ],
    ids=["draft", "dialog", "unreadable", "no composer", "person active", "an image on the clipboard"],
)
def test_an_unsafe_moment_is_refused_without_a_key(desk: Any, app: Any, desktop: Any, reason: HoldReason) -> None:
    """Non-empty is userTyping, unreadable unknown, a dialog waiting, an active user typing."""
    desk.desktop.change_app(desk.pid, **app)
    desk.desktop.change(**desktop)
    before = desk.desktop.read()

    outcome = asyncio.run(desk.deliver())

    after = desk.desktop.read()
    assert isinstance(outcome, Refused), outcome
    assert outcome.reason is reason
    assert (desk.keys, desk.steps) == ([], [])
    assert (after["front"], after["clipboard"], after["apps"]) == (1, before["clipboard"], before["apps"])


def test_a_placeholder_is_no_draft(desk: Any) -> None:
    """docs/macos.md: a composer whose value is its own placeholder is empty."""
    desk.desktop.change_app(desk.pid, placeholder="Reply to Claude…", value="Reply to Claude…", deaf=True)

    seen = asyncio.run(_observed(desk))

    assert single_vote(seen.evidence).vote is PresenceState.IDLE


def test_a_draft_begun_between_look_and_paste_stays_byte_identical(desk: Any) -> None:
    """The draft rule: the check and the key are one script."""
    desk.desktop.strike("app_key", 1, app=(desk.pid, {"value": "I was just ab"}))

    outcome = asyncio.run(desk.deliver())

    assert isinstance(outcome, Refused)
    assert desk.desktop.read()["apps"][str(desk.pid)]["value"] == "I was just ab"
    assert desk.steps == [Step.INTENT_STAGE, Step.REFUSED]


def test_a_draft_begun_behind_our_text_is_never_submitted(desk: Any) -> None:
    """The draft rule: staged, unsubmitted, reported."""
    desk.desktop.strike("app_key", 2, app=(desk.pid, {"value": f"{desk.text} wait"}))

    outcome = asyncio.run(desk.deliver())

    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.STAGED
    assert desk.desktop.read()["apps"][str(desk.pid)]["submitted"] == []


def test_a_return_that_does_nothing_is_reported_and_not_pressed_again(desk: Any) -> None:
    """Decision 10: it may only be taken late."""
    desk.desktop.change_app(desk.pid, swallows_return=1)

    outcome = asyncio.run(desk.deliver())

    assert isinstance(outcome, Refused)
    assert outcome.reason is HoldReason.STAGED
    assert desk.keys == ["paste", "return"]
    assert desk.desktop.read()["apps"][str(desk.pid)]["submitted"] == []


def test_a_staged_text_found_standing_is_submitted_and_one_that_is_gone_is_unknown(desk: Any) -> None:
    """Resumed from the journal; never typed a second time."""
    gone = asyncio.run(desk.deliver(Progress.STAGED))
    desk.desktop.change_app(desk.pid, value=f"{desk.text}\n")
    standing = asyncio.run(desk.deliver(Progress.STAGED))

    assert isinstance(gone, Unknown)
    assert isinstance(standing, Delivered)
    assert desk.keys == ["return"]


def test_no_script_ever_contains_text_from_the_graph(desk: Any) -> None:
    """Text only as an argument or through a pipe; what runs are the bundled files, unchanged."""
    asyncio.run(desk.deliver())

    calls = [call for call in desk.desktop.read()["calls"] if call["script"] not in {"pbcopy", "pbpaste", "ps"}]
    assert calls
    for call in calls:
        assert Path(call["argv"][0]).parent == SCRIPTS
        assert "-e" not in call["argv"]
    assert COPIED not in json.dumps([call["argv"] for call in calls])


def test_presence_is_read_at_most_every_five_seconds(desk: Any) -> None:
    """Accessibility reads at least 5 s apart."""
    for _ in range(3):
        asyncio.run(_observed(desk))

    assert sum(call["script"] == "app_look" for call in desk.desktop.read()["calls"]) == 1


def test_two_instances_are_told_apart_by_their_data_directory_or_refused(desk: Any) -> None:
    """Upstream's `userDataDir` honoured; several is a hold, never a guess."""
    desk.desktop.open_app(2, "Claude", "com.example.claude")
    named = Address(Identity("@agent"), details=(("appName", "Claude"), ("userDataDir", "600")))

    several = asyncio.run(desk.adapter.resolve(desk.address))
    one = asyncio.run(desk.adapter.resolve(named))

    assert isinstance(several, Nowhere)
    assert several.reason is HoldReason.AMBIGUOUS
    assert isinstance(one, Place)
    assert str(desk.pid) in one.key


@pytest.mark.parametrize(
    ("name", "bundle"),
    [("Ghostty", "com.mitchellh.ghostty"), ("Terminal", "com.apple.Terminal"), ("Anything", "net.kovidgoyal.kitty")],
)
def test_a_terminal_is_no_application_to_type_into(desk: Any, name: str, bundle: str) -> None:
    """Its focused element may be a shell's, and looks as empty as a composer: the agent belongs into tmux there."""
    desk.desktop.open_app(2, name, bundle)

    found = asyncio.run(desk.adapter.resolve(Address(Identity("@agent"), pane=name)))

    assert isinstance(found, Nowhere)
    assert "tmux" in found.detail
    assert desk.keys == []


def test_the_codex_application_is_woken_as_claudes_is(desk: Any) -> None:
    """By its name; nothing of the way is one application's own."""
    state = desk.desktop.read()
    state["apps"][str(desk.pid)]["name"] = "Codex"
    desk.desktop.write(state)
    desk.address = Address(Identity("@agent"), pane="Codex")

    assert isinstance(asyncio.run(desk.deliver()), Delivered)
    assert desk.keys == ["paste", "return"]


def test_the_tab_key_of_a_subscription_is_pressed_before_the_tab_is_looked_at(desk: Any) -> None:
    """Upstream's `tabShortcut` honoured."""
    desk.address = Address(Identity("@agent"), details=(("appName", "Claude"), ("tabShortcut", "3")))

    outcome = asyncio.run(desk.deliver())

    assert isinstance(outcome, Delivered), outcome
    assert desk.desktop.read()["keys"][0] == [desk.pid, "tab", "3"] or desk.desktop.read()["keys"][0][1:] == [
        "tab",
        "3",
    ]
    assert desk.keys == ["tab", "paste", "return"]


def test_where_there_is_no_osascript_the_adapter_says_so_plainly() -> None:
    """On other systems unavailable, with a plain reason."""
    context = AdapterContext(
        timeout=5, typing_quiet=10, screens_directory="", environment={"PATH": "/nonexistent"}, clock=SteadyClock()
    )
    adapter = OsascriptAdapter(OsascriptConfig(), context)

    found = asyncio.run(adapter.resolve(Address(Identity("@agent"), pane="Claude")))
    (check,) = asyncio.run(adapter.probe())

    assert isinstance(found, Nowhere)
    assert "macOS only" in found.detail
    assert check[1] is None


@pytest.mark.parametrize(
    ("script", "code", "name", "word"),
    [
        ("app_find", -1743, "osascript automation", "Automation"),
        ("app_look", -25211, "osascript accessibility", "Accessibility"),
        ("app_look", 1002, "osascript accessibility", "Accessibility"),
    ],
)
def test_doctor_tells_which_permission_is_missing(desk: Any, script: str, code: int, name: str, word: str) -> None:
    """`doctor` checks them."""
    sound = {check[0]: check[1] for check in asyncio.run(desk.adapter.probe())}
    desk.desktop.strike(script, 1, error=[code, "not allowed"])

    broken = {check[0]: check for check in asyncio.run(desk.adapter.probe())}

    assert sound[name] is True
    assert broken[name][1] is False
    assert word in broken[name][3]


async def _observed(desk: Any) -> Any:
    place = await desk.adapter.resolve(desk.address)
    return await desk.adapter.observe(place, desk.address)
