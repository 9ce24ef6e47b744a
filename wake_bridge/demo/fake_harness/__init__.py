"""A terminal agent that plays any state, and records every byte it receives.

It runs on a real terminal, in raw mode, on the alternate screen, with bracketed paste on, and looks and behaves like
the real ones: a transcript, a composer between two rules, a dim placeholder, a footer and a title. It is the oracle of
the tests for "no key was sent", "submitted once" and "the draft is byte-identical", and the agent of
`wake-bridge demo`. Its screen profile is `fake`.

    python -m wake_bridge.demo.fake_harness [--name fake] [--log FILE] [--control PATH] [--mode MODE] [--text T] [knobs]

Modes (`--mode`, or `{"mode": …, "text": …, "keep": bool}` on the control channel)
    idle        composer with its placeholder
    busy        title spinner, a working row, `esc to interrupt`
    streaming   the title spinner alone; rows come in bursts
    approval    no composer; Enter, `y`, `1` and `2` APPROVE (event `approved`), Escape, `n` and `3` reject
    menu        no composer; arrows, Enter chooses (event `chosen`), Escape leaves
    draft       composer with `text`
    ghost       a dim suggestion, `text`; Tab takes it over, typing and pasting replace it
    vim-normal  letters are commands (event `vim-command`); `i` goes back to inserting
    shell       prompt `!`: Enter would run it in a shell (event `shell`; nothing is ever run)
    crash       dies at once, its picture stays on the screen
    exit        leaves the way it came
    A `!` typed or pasted into an empty composer goes to shell mode. `keep` leaves the composer as it is, otherwise it
    holds `text` afterwards.

Knobs (options at the start, `{"set": {"swallow_enter": 2}}` while it runs; milliseconds, 0 is off)
    --echo-delay, --paste-delay   keys and pastes are handled, and shown, so much later, still in order
    --paste-read-delay, --enter-read-delay
                                  input for an empty composer, and for one with text, is read so much later
    --draw-delay MS               whatever changes is shown so much later
    --ticks                       a clock in the footer goes on, whatever else is late
    --swallow-enter N             the next N Enters are ignored (event `swallowed`)
    --chip-lines N                pastes of N lines and more fold into `[Pasted text #1 +29 lines]`
    --dialog-after-paste          an approval comes up right after a paste
    --transcript-delay MS         a message that left the composer stands in the transcript so much later
    --dialog-after-submit         the turn that a message begins asks at once
    --reply-after MS              busy for so long after a submit, then an answer
    --on-submit COMMAND           run for every submit, which it finds in `$WAKE_BRIDGE_TEST_FAKE_TEXT`
    --inbox-command COMMAND       run when a wake is submitted; its output is the answer

Crowds: with `--quiet` it has the same mind and screen, but no animation, knobs or control channel, and sleeps in `read`;
with `--deaf` it looks idle and never reads. A process takes 13 MB then, and no time while nothing comes.

Log (`--log`): JSON lines, each with `at` (UTC ms), `event`, and the `mode` and `composer` it met. `bytes` (hex) holds
every byte read; then what they meant: `paste`, `submit`, `approved`, `rejected`, `chosen`, `swallowed`, `shell`,
`vim-command`, `empty-enter`, `ignored-paste`, `interrupted`; and `started`, `mode`, `drawn` (a dialog is in
the terminal), `resized`, `answered`, `on-submit`, `inbox`, `exited`.

Control (`--control`): a FIFO that exists, or a Unix socket it makes. Each line is a JSON object with `mode`, `set` and
`say` (adds to the transcript), all optional; a socket answers `{"ok", "mode", "composer", "cursor", "submits"}` once
the change is drawn, or will be after `draw-delay`. `FakeHarness` is the client.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wake_bridge.demo.fake_harness.client import FakeHarness

__all__ = ["FakeHarness"]


def __getattr__(name: str) -> object:
    """The client, where one is asked for: the harness itself has no use for it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from wake_bridge.demo.fake_harness.client import FakeHarness  # noqa: PLC0415

    return FakeHarness
