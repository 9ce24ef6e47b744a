"""`bind`, `unbind`, `list`: where an identity lives, and who says so."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from wake_bridge.testing.playground import Playground


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory,
    program: tuple[str, ...],
    tmux_program: str,  # noqa: ARG001 - asked for what it demands
) -> Iterator[Playground]:
    """Two agents; the identity is subscribed in the first one's pane."""
    with Playground(Path(tmp_path_factory.mktemp("bound")), program) as made:
        made.agent("first")
        made.agent("second")
        made.sandbox.run("init")
        made.sandbox.run("agent", "add", "@codex")
        yield made


@pytest.fixture
def subscribed(world: Playground) -> Iterator[Playground]:
    """The identity subscribed for mail in `first`, bound nowhere."""
    made = world.sandbox.enlist("@codex", "first")
    yield world
    world.sandbox.run("unbind", "@codex")
    for one in world.sandbox.ask("list", "@codex")["subscriptions"]:
        world.sandbox.run("unsubscribe", one["subscriptionId"])
    assert made


def listed(world: Playground) -> tuple[str | None, str | None, bool]:
    (one,) = world.sandbox.ask("list", "@codex")["subscriptions"]
    return one["pane"], one["note"], one["deliverable"]


def option(world: Playground, name: str) -> str:
    return world.tmux.run("display-message", "-p", "-t", world.agents[name].id, "#{@wake_identity}").strip()


def test_list_shows_the_pane_and_a_bind_that_overrules_the_subscription(subscribed: Playground) -> None:
    """A bind wins over the pane that the subscription names: `list` says which pane it is, and why."""
    assert listed(subscribed) == ("first:0.0", None, True)
    said = "@codex is bound to second:0.0; its subscription's 'first' is not used: `wake-bridge unbind @codex`"

    subscribed.sandbox.run("bind", "@codex", "--pane", "second")

    assert listed(subscribed) == ("second:0.0", said, True)
    table = subscribed.sandbox.run("list", "@codex").stdout.splitlines()
    assert table[0].split()[:5] == ["subscription", "identity", "trigger", "pane", "deliverable"]
    assert "second:0.0" in table[1]
    assert said in table[1]


def test_subscribe_says_that_a_bind_hides_the_pane_it_names(subscribed: Playground) -> None:
    """A person who just said `--tmux first` must hear that it is not used."""
    subscribed.sandbox.run("bind", "@codex", "--pane", "second")

    answer = subscribed.sandbox.run("subscribe", "@codex", "--trigger", "SENT_TO_ME", "--tmux", "first")

    assert "note: @codex is bound to second:0.0; its subscription's 'first' is not used" in answer.stderr
    assert "note: @codex is bound" not in subscribed.sandbox.run("list").stderr


def test_unbind_forgets_the_pane_in_the_ledger_and_in_tmux(subscribed: Playground) -> None:
    """What `bind` wrote, `unbind` takes back: the subscription says again where the identity lives."""
    subscribed.sandbox.run("bind", "@codex", "--pane", "second")
    assert option(subscribed, "second") == "@codex"

    answer = subscribed.sandbox.run("--json", "unbind", "@codex")

    assert answer.stdout == '{"agentIdentity":"@codex","unbound":true,"panes":["second:0.0"]}\n'
    assert "note: it lives in first:0.0" in answer.stderr
    assert option(subscribed, "second") == ""
    assert listed(subscribed) == ("first:0.0", None, True)
    again = subscribed.sandbox.run("unbind", "@codex")
    assert "@codex was not bound" in again.stdout


def test_unbind_leaves_the_others_that_share_the_pane(subscribed: Playground) -> None:
    """Two identities may share a pane, and who binds the second is told; one of them leaves."""
    subscribed.sandbox.run("agent", "add", "@guest")
    alone = subscribed.sandbox.run("bind", "@codex", "--pane", "second")
    assert alone.stderr == ""
    shared = subscribed.sandbox.run("bind", "@guest", "--pane", "second")
    assert "note: @codex is bound to that pane too: its agent is woken for both" in shared.stderr
    assert subscribed.sandbox.ask("bind", "@guest", "--pane", "second")["sharedWith"] == ["@codex"]

    subscribed.sandbox.run("unbind", "@codex")

    assert option(subscribed, "second") == "@guest"
    subscribed.sandbox.run("unbind", "@guest")


def test_unbind_works_when_the_pane_is_gone(subscribed: Playground) -> None:
    """A binding whose pane was closed is forgotten like any other."""
    pane = subscribed.tmux.new_pane("exec sleep 600", session="brief")
    subscribed.sandbox.run("bind", "@codex", "--pane", str(pane.pane_id))
    subscribed.tmux.run("kill-pane", "-t", str(pane.pane_id))

    assert subscribed.sandbox.ask("unbind", "@codex") == {"agentIdentity": "@codex", "unbound": True, "panes": []}


def test_unbind_of_somebody_unknown_is_not_found(world: Playground) -> None:
    """8 is not found."""
    assert "@nobody" in world.sandbox.run("unbind", "@nobody", expect=8).stderr


@pytest.fixture
def targeted(subscribed: Playground) -> Iterator[Playground]:
    """A `[targets]` entry that puts the identity into `second`."""
    before = subscribed.sandbox.config_file.read_text()
    with subscribed.sandbox.config_file.open("a") as stream:
        stream.write('\n# mine\n[targets."@codex"]\npane = "second:0.0" # here\n')
    try:
        yield subscribed
    finally:
        subscribed.sandbox.config_file.write_text(before)


def test_a_configured_target_that_overrules_the_subscription_is_named(targeted: Playground) -> None:
    """`[targets]` wins over the subscription's metadata; `list` says so."""
    pane, note, _ = listed(targeted)
    used = targeted.sandbox.run("bind", "@codex", "--pane", "second")

    assert pane == "second:0.0"
    assert note == "[targets] puts @codex in second:0.0; its subscription's 'first' is not used"
    assert used.stderr == ""


def test_list_names_a_bind_that_a_later_target_overrules(subscribed: Playground) -> None:
    """By-hand.md says that `list` shows what is overruled; the bind was first, the target came later."""
    subscribed.sandbox.run("bind", "@codex", "--pane", "second")
    file = subscribed.sandbox.config_file
    before = file.read_text()
    file.write_text(f'targets."@codex".pane = "first:0.0"\n{before}')
    try:
        pane, note, _ = listed(subscribed)
        subscribed.sandbox.run("unbind", "@codex")
        unbound = listed(subscribed)[1]
    finally:
        file.write_text(before)

    assert pane == "first:0.0"
    assert note == "[targets] puts @codex in first:0.0; what it was bound to is not used: `wake-bridge unbind @codex`"
    assert unbound is None


def test_a_bind_that_a_configured_target_would_overrule_is_refused_and_changes_nothing(targeted: Playground) -> None:
    """What could not help exits 7; neither pane nor ledger is told."""
    refused = targeted.sandbox.run("bind", "@codex", "--pane", "first", expect=7)

    assert "[targets] puts @codex into 'second:0.0' and takes precedence" in refused.stderr
    assert refused.stdout == ""
    assert option(targeted, "first") == ""
    assert "@codex was not bound" in targeted.sandbox.run("unbind", "@codex").stdout


@pytest.mark.parametrize(
    ("written", "keys"),
    [
        ('[targets."@codex"]\npane = "second:0.0" # here\n', {"pane": "first:0.0"}),
        ("[targets.'@codex']\nwindow = 1\npane='second'\n", {"pane": "first:0.0"}),
        ('targets."@codex".pane = "second"\n', {"pane": "first:0.0"}),
        (
            '[targets."@codex"]\npane = "second"\nagent = "other"\ndirectory = "/"\nsocket = "elsewhere"\n',
            {"pane": "first:0.0", "agent": "fake"},
        ),
    ],
    ids=["a table", "with other signs", "a dotted key", "with who must be there"],
)
def test_the_line_that_a_refused_bind_prints_is_the_one_that_helps(
    subscribed: Playground, written: str, keys: dict[str, str]
) -> None:
    """Taken literally, it leads the identity to the pane that was meant."""
    file = subscribed.sandbox.config_file
    before = file.read_text()
    daemon = subscribed.sandbox.daemon()
    file.write_text(f"{written}{before}" if written.startswith("targets") else f"{before}\n{written}")
    try:
        refused = subscribed.sandbox.run("bind", "@codex", "--pane", "first", expect=7)
        take_the_lines(file, refused.stderr)
        (reload,) = re.findall(r"`(kill -HUP \d+)`", refused.stderr)
        subprocess.run(["sh", "-c", reload], check=True)
        daemon.waits_for_log("config_reloaded")
        table = tomllib.loads(file.read_text())["targets"]["@codex"]
        where = subscribed.sandbox.ask("presence", "@codex")["where"]
        bound = subscribed.sandbox.run("bind", "@codex", "--pane", "first")
    finally:
        daemon.stop()
        file.write_text(before)

    assert {key: table[key] for key in keys} == keys
    assert where == "first:0.0"
    assert bound.stderr == ""


def take_the_lines(file: Path, said: str) -> None:
    """Change the file as the hint says: by the numbers and the words that stand there, and nothing else."""
    lines = file.read_text().splitlines()
    changes = re.findall(r"line (\d+): `(.*?)` becomes `(.*?)`", said, re.DOTALL)
    assert changes
    for number, was, becomes in changes:
        assert lines[int(number) - 1].strip() == was
        lines[int(number) - 1] = becomes
    file.write_text("\n".join(lines) + "\n")
