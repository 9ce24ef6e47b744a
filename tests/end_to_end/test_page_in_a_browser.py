"""The page of all agents in a real browser: what it shows, who can use it, and who cannot.

`WAKE_BRIDGE_TEST_PICTURES=1` writes the pictures of docs/page.md anew.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.browser import Browser, Tab
from tests.programs import needs
from wake_bridge.demo.sandbox import QUICK, DaemonProcess, Sandbox
from wake_bridge.domain.delivery import Outcome, Proof
from wake_bridge.domain.names import Epoch, Instant, LogId
from wake_bridge.ports.ledger_records import Position
from wake_bridge.storage.ledger import LedgerStore
from wake_bridge.system.clock import SteadyClock
from wake_bridge.system.ulids import new_ulid
from wake_bridge.testing.ledger_samples import lock_with_its_events, open_delivery, sample_event
from wake_bridge.testing.playground import Playground

PICTURES = Path(__file__).parents[2] / "docs"
HOSTILE = "<img src=x onerror=document.title='taken'></p><script>document.title='taken'</script> \u202eevil"
SETTINGS = f"""{QUICK}
attention.after = 1
channels.desk = {{kind = "file", label = "my desk", recipient = "told.jsonl"}}
"""


@dataclass
class World:
    """A daemon, its agents, and a person's browser."""

    sandbox: Sandbox
    browser: Browser
    daemon: DaemonProcess
    docs: Path

    def page(self, *, width: int = 1280) -> Tab:
        """The page in a tab that was opened by a link, shown and live."""
        tab = self.browser.tab(self.sandbox.ask("open")["url"], width=width)
        tab.waits("document.getElementById('link').dataset.state === 'live' && document.querySelector('.view')")
        return tab


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, program: tuple[str, ...], tmux_program: str) -> Iterator[World]:  # noqa: ARG001 - asked for what it demands
    """@docs stands at a dialog, @api was woken, @core is paused, of a wake for @review nobody knows whether it arrived."""
    needs("chromium")
    directory = tmp_path_factory.mktemp("page")
    with Playground(directory, program) as play, Browser() as browser:
        sandbox = play.sandbox
        sandbox.configure(SETTINGS)
        sandbox.run("init")
        agents = play.together(play.enlisted, ("api", "docs", "core", "review"))
        agents["docs"].fake.shows("approval")
        with closing(LedgerStore.open(sandbox.state_dir)) as ledger:
            now = Instant(SteadyClock().now() - 60_000)
            ledger.begin_epoch(Position(Epoch(1), LogId(0)), [], "first start", now)
            lost = sample_event(0, "@review", subject_key="MESSAGE:lost", matched_at=now)
            delivery = ledger.dispatch(open_delivery(ledger, lost, new_id=new_ulid, now=now), now)
            ledger.settle(lock_with_its_events(ledger, delivery, now), Outcome.UNKNOWN, Proof.NONE, {}, now)
        sandbox.run("pause", "@core", "--for", "2h")
        sandbox.run("notify", "@review", "--source", "ci", "build 812 is slow")
        daemon = sandbox.daemon()
        sandbox.send("@api", "Tests fail on main: 3 of 812 since the merge", sender="@ci")
        sandbox.send("@docs", "Please describe the new key", sender="@api")
        sandbox.send("@core", "The index is rebuilt", sender="@api")
        sandbox.run("remind", "@docs", "--cron", "0 9 * * 1-5", "update the docs")
        sandbox.run("remind", "--in", "40m", "look at the build")
        sandbox.waits_for_delivery(target="@api", outcome="submitted")
        sandbox.waits_for_delivery(target="@docs", hold_reason="waitingOnApproval")
        sandbox.waits_for_delivery(target="@core", hold_reason="paused")
        sandbox.waits_for(lambda: sandbox.ask("status")["attention"])
        made = World(sandbox, browser, daemon, PICTURES if os.environ.get("WAKE_BRIDGE_TEST_PICTURES") else directory)
        take_pictures(made)
        sandbox.send("@core", HOSTILE, sender="@api")
        sandbox.waits_for(lambda: any("onerror" in str(one["stimulus"]) for one in sandbox.lines("activity")))
        yield made


def take_pictures(world: World) -> None:
    """The pictures of the docs, of what a person sees."""
    tab = world.page()
    tab.sees("Waits for an approval")
    tab.resize(1280, 860)
    tab.picture(world.docs / "page.png")
    tab.is_dark(True)
    tab.picture(world.docs / "page-dark.png")


def test_who_needs_a_person_comes_first_with_the_reason_and_what_to_do(world: World) -> None:
    """All agents at a glance; what waits and why, last wakes, budgets, reminders, channels, hosts, what happened."""
    tab = world.page()

    needing = tab.does("[...document.querySelectorAll('#needs .card')].map((one) => one.dataset.agent)")
    assert set(needing) == {"@docs", "@review"}
    order = tab.does("[...document.querySelectorAll('#agents .row')].map((one) => one.dataset.agent)")
    assert order == [*needing, "@api", "@core"]
    docs = tab.text("#need-\\@docs")
    assert "Waits for an approval" in docs
    assert "wake-bridge next" in docs
    tab.sees("may or may not have arrived", "#need-\\@review")
    tab.sees("2 waiting: @core is paused", "#agent-\\@core")
    tab.sees("of 20", "#agent-\\@api")
    tab.sees("1 item for its next turn", "#agent-\\@review")
    tab.sees("Look in review:0.0. If the wake is not there, retry it.", "#need-\\@review")
    tab.sees("last wake", "#agent-\\@api")
    tab.sees("update the docs", "#reminders")
    tab.sees("my desk", "#channels")
    tab.sees("this daemon", "#hosts")
    tab.sees("woken in api:0.0", "#happened")
    assert tab.does("document.title") == "(2) wake-bridge"


def test_every_subject_is_text_and_nothing_else(world: World) -> None:
    """A subject with tags, scripts and turned directions is shown as it was written, and runs nowhere."""
    tab = world.page()
    tab.sees("onerror", "#happened")
    for place in ("#/", "#/agent/@core"):
        tab.does(f"location.hash = {json.dumps(place)}")
        tab.sees("<script>document.title")
        assert tab.does("document.querySelectorAll('main img, main script').length") == 0
        assert "taken" not in tab.does("document.title")
        assert "\u202e" not in tab.does("document.body.innerHTML")


def test_states_have_words_and_a_command_is_written_as_it_is_typed(world: World) -> None:
    """What stands there can be read by a person who knows no column of the ledger, and be copied into a terminal."""
    tab = world.page()
    tab.does("location.hash = '#/agent/@core'")
    tab.sees("waits\n@core is paused", "#wakes")
    wake = world.sandbox.lines("deliveries", "--target", "@core")[0]["id"]
    tab.does(f"location.hash = '#/wake/{wake}'")
    tab.sees("Step by step")
    assert tab.text(".title .tag") == "waits"
    assert tab.does("document.querySelector('.remedy').textContent") == "wake-bridge resume @core"
    assert tab.does("getComputedStyle(document.querySelector('.remedy'), '::first-letter').textTransform") == "none"
    assert tab.text(".remedy code") == "wake-bridge resume @core"


def test_the_link_leaves_nothing_behind_but_a_token_for_one_tab(world: World) -> None:
    """No cookie, which would go to every port of localhost; the code is not in the address any more, and worth nothing."""
    link = world.sandbox.ask("open")["url"]
    tab = world.browser.tab(link)
    tab.sees("Agents")
    assert "#k=" not in tab.does("location.href")
    assert tab.does("document.cookie") == ""
    assert tab.call("Network.getCookies")["cookies"] == []
    assert tab.does("Object.keys(localStorage).length") == 0
    assert len(tab.does("sessionStorage.getItem('wake-bridge-token')")) > 80

    again = world.browser.tab_in(tab.context, link)
    again.sees("This page needs a link")
    assert again.text("#view code") == "wake-bridge open"
    assert again.does("sessionStorage.getItem('wake-bridge-token')") is None
    assert "@docs" not in again.text()


def test_the_page_is_used_by_keyboard_alone(world: World) -> None:
    """Every button is reached by Tab and has a name; letters go from agent to agent; a wake is retried only after a word."""
    tab = world.page()
    focused = "document.activeElement"
    tab.presses("Tab")
    assert tab.does(f"{focused}.innerText") == "Skip to the agents"
    tab.presses("Enter")
    assert tab.does(f"{focused}.id") == "view"
    tab.presses("j")
    first = tab.does(f"{focused}.innerText")
    tab.presses("j")
    tab.presses("k")
    assert tab.does(f"{focused}.innerText") == first
    tab.presses("/")
    tab.types("core")
    assert tab.does("document.querySelectorAll('#agents .row:not([hidden])').length") == 1
    tab.presses("Escape")
    assert tab.does("document.querySelectorAll('#agents .row:not([hidden])').length") == 4
    tab.presses("Escape")

    retry = "document.querySelector('#need-\\\\@review button[data-act=retry]')"
    tab.does("document.querySelector('#need-\\\\@review summary').focus()")
    tab.presses("Enter")
    tab.waits(f"{retry}.checkVisibility()")
    assert tab.does(f"{retry}.disabled") is True
    tab.presses("Tab")
    tab.presses(" ")
    assert tab.does(f"{retry}.disabled") is False
    tab.does("document.querySelector('#need-\\\\@review details').open = false")

    tab.does("document.querySelector('#agent-\\\\@api .agent').focus()")
    tab.presses("Enter")
    tab.sees("Timeline")
    assert tab.does("document.querySelector('h1').innerText") == "@api"
    tab.does("document.querySelector('#timeline .more').focus()")
    tab.presses("Enter")
    tab.sees("Step by step")
    tab.sees("submitted", "#journal")
    tab.sees("Tests fail on main", "#digest")
    tab.presses("Escape")
    tab.sees("What happened")


def test_a_screen_reader_finds_names_landmarks_and_headings(world: World) -> None:
    """Whatever can be pressed has a name of its own, and nothing is said by colour alone."""
    tab = world.page()
    tree = tab.call("Accessibility.getFullAXTree")["nodes"]
    shown = [one for one in tree if not one.get("ignored")]

    def named(role: str) -> list[str]:
        return [one.get("name", {}).get("value", "") for one in shown if one.get("role", {}).get("value") == role]

    for role in ("button", "link", "searchbox", "checkbox"):
        assert all(named(role)), role
    assert {"Pause 1 h @api", "Resume @core"} <= {" ".join(one.split()) for one in named("button")}
    assert len(named("main")) == 1
    assert {"2 need you", "Agents", "What happened"} <= set(named("heading"))
    assert named("status")
    states = tab.does("[...document.querySelectorAll('.presence')].map((one) => one.innerText.trim())")
    assert all(states)


CONTRAST = """(() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return parse(getComputedStyle(document.documentElement).backgroundColor);
  };
  const found = [];
  const look = (element, colour, text) => {
    const [one, other] = [light(parse(colour)), light(behind(element))].sort((a, b) => b - a);
    found.push([Math.round(100 * (one + 0.05) / (other + 0.05)) / 100, text.slice(0, 40)]);
  };
  for (const one of document.querySelectorAll('details')) one.open = true;
  document.getElementById('said').textContent = 'said';
  for (const one of document.querySelectorAll('[placeholder]')) look(one, getComputedStyle(one, '::placeholder').color, one.placeholder);
  for (const one of document.querySelectorAll('body *')) if (getComputedStyle(one).opacity !== '1') found.push([0, one.outerHTML.slice(0, 40)]);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.nodeValue.trim() || !element.checkVisibility() || element.closest('.hidden, button:disabled')) continue;
    look(element, getComputedStyle(element).color, walker.currentNode.nodeValue.trim());
  }
  document.getElementById('said').textContent = '';
  return found.sort((a, b) => a[0] - b[0]);
})()"""


@pytest.mark.parametrize("is_dark", [False, True])
def test_every_text_stands_out_by_day_and_by_night_and_fits_a_phone(world: World, is_dark: bool) -> None:
    """WCAG AA: 4.5 to 1, on each view, of hints and of what is said in passing too; at 380 px nothing is wider than the screen."""
    tab = world.page()
    tab.is_dark(is_dark)
    sent, lost = (world.sandbox.lines("deliveries", "--target", one)[-1]["id"] for one in ("@api", "@review"))
    places = [("#/", "What happened"), ("#/agent/@docs", "Timeline"), ("#/agent/@core", "onerror")]
    places += [(f"#/wake/{one}", "Step by step") for one in (sent, lost)]
    for place, mark in (*places, ("", "This page needs a link")):
        if place:
            tab.does(f"location.hash = {json.dumps(place)}")
        else:
            tab.does("sessionStorage.clear(); location.reload()")
        tab.sees(mark)
        for width in (1280, 380):
            tab.resize(width)
            assert tab.does("document.documentElement.scrollWidth") <= width, place
        tab.resize(1280)
        measured = tab.does(CONTRAST)
        assert len(measured) > (10 if place else 3)
        assert measured[0][0] >= 4.5, measured[:5]


def test_a_button_does_what_it_says_and_the_page_follows(world: World) -> None:
    """A click pauses and resumes; the page tells it, and shows it without being loaded again."""
    tab = world.page()
    tab.clicks("#agent-\\@api [data-act=pause]")
    tab.sees("@api is paused for 1 h", "#said")
    tab.sees("paused, 59 min left", "#agent-\\@api")
    assert "@api" in {one["agentIdentity"] for one in world.sandbox.ask("status")["paused"]}
    tab.clicks("#agent-\\@api [data-act=resume]")
    tab.waits("document.querySelector('#agent-\\\\@api [data-act=pause]')")
    assert {one["agentIdentity"] for one in world.sandbox.ask("status")["paused"]} == {"@core"}


def test_a_reconnect_through_a_restart_misses_no_event(world: World) -> None:
    """The page goes on from the last entry that it saw: each one that was written meanwhile comes once."""
    tab = world.page()
    tab.does("document.documentElement.dataset.events = '0'")
    before = world.sandbox.lines("activity", "--limit", "1")[-1]["id"]
    tab.waits("document.getElementById('link').dataset.state === 'live'")

    world.daemon.stop()
    tab.sees("the daemon does not answer", "#link")
    for _ in range(3):
        world.sandbox.run("pause", "@review", "--for", "1h")
        world.sandbox.run("resume", "@review")
    world.daemon = world.sandbox.daemon()

    last = world.sandbox.lines("activity", "--limit", "1")[-1]["id"]
    assert last >= before + 6
    tab.waits(f"Number(document.documentElement.dataset.cursor) >= {last}")
    seen = tab.does("({...document.documentElement.dataset})")
    assert int(seen["events"]) == int(seen["cursor"]) - before
    assert "reset" not in seen
    assert "dropped" not in seen
    tab.waits(f"document.getElementById('entry-{last}')")
    tab.waits("document.getElementById('link').dataset.state === 'live'")


STRANGER = """<!doctype html><title>a dev server</title><link rel=icon href="data:,">
<button id=act onclick="send('/api/act', {method: 'POST', body: JSON.stringify({act: 'pause', identity: '*'})})">act</button>
<button id=json onclick="send('/api/act', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{}'})">json</button>
<button id=blind onclick="send('/api/act', {method: 'POST', mode: 'no-cors', body: '{}'})">blind</button>
<button id=read onclick="send('/api/activity')">read</button>
<button id=stream onclick="send('/api/events', {mode: 'no-cors'})">stream</button>
<button id=code onclick="send('/api/session', {method: 'POST', mode: 'no-cors', body: '{}'})">code</button>
<form id=form method=post enctype=text/plain target=frame action="PAGE/api/act"><input name='{"act":"pause","identity":"*","x":"' value='"}'></form>
<iframe name=frame id=frame src="PAGE/"></iframe>
<script>
let done = 0;
const told = [];
function send(path, options) {
  fetch('PAGE' + path, options).then((a) => a.text()).then((t) => told.push(t)).catch(() => told.push('')).finally(() => (done += 1));
}
</script>"""


def test_a_page_on_another_port_of_localhost_gets_no_token_and_its_clicks_are_refused(
    world: World, tmp_path: Path
) -> None:
    """An agent's dev server is on localhost too: in the same browser, beside the open page, it can do nothing."""
    ours = world.page()
    listen = world.sandbox.ask("open", "--token")["listen"].rstrip("/")
    (tmp_path / "index.html").write_text(STRANGER.replace("PAGE", listen))
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tab = world.browser.tab_in(ours.context, f"http://127.0.0.1:{server.server_port}/index.html")
        tab.waits("document.getElementById('frame')")
        tab.call("Network.enable")
        tab.waits("typeof send === 'function'")
        buttons = ("act", "json", "blind", "read", "stream", "code")
        for name in buttons:
            tab.clicks(f"#{name}")
        tab.waits(f"done === {len(buttons)}")
        tab.does("document.getElementById('form').submit()")
        answers = tab.answers(1 + len(buttons))
        assert set(answers) == {403}
        assert set(tab.does("told")) == {""}
        assert tab.does("sessionStorage.getItem('wake-bridge-token')") is None
        assert tab.does("document.cookie") == ""
        # a frame shows nothing of ours
        assert (
            tab.does("(() => { try { return frame.document.body.innerText; } catch { return 'closed'; } })()")
            == "closed"
        )
        server.shutdown()
    assert {one["agentIdentity"] for one in world.sandbox.ask("status")["paused"]} <= {"@core", "@review"}
