"""Episodes in which an agent needs a person, on a turned clock: a real ledger, imagined agents, with and without mail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.desk import ACTIVE, AGENT, DIALOG, IDLE, OTHER, SECOND, Desk, played
from wake_bridge.domain.attention import AttentionRules, EpisodeElsewhere
from wake_bridge.domain.guards import QuietHours
from wake_bridge.domain.names import AttentionKind, Instant
from wake_bridge.domain.presence import PresenceState
from wake_bridge.testing.memory_adapter import ImaginedAgent


def test_an_approval_without_mail_is_told_once_after_a_minute_and_marked_answered(tmp_path: Path) -> None:
    """An agent that stands at a dialog is no longer silent; one notice for one episode, a restart says nothing again."""

    async def story(desk: Desk) -> None:
        agent = desk.office.agent("agent")
        await desk.lets_pass(30)
        assert desk.episodes() == []
        agent.state = DIALOG
        await desk.lets_pass(60)
        assert desk.told == []
        await desk.lets_pass(10)
        assert desk.told == [("@agent", "approval")]
        (episode,) = desk.episodes()
        assert episode.told_at is not None
        assert desk.office.ledger.noticed() == {episode.id}

        await desk.restarts()
        await desk.lets_pass(600)
        assert desk.told == [("@agent", "approval")]
        assert [one.id for one in desk.episodes()] == [episode.id]

        agent.state = ACTIVE
        await desk.lets_pass(10)
        (ended,) = desk.episodes()
        assert ended.ending == "answered"
        assert ended.ended_at is not None
        assert desk.office.ledger.noticed() == set()

        agent.state = DIALOG
        await desk.lets_pass(70)
        assert desk.told == [("@agent", "approval")] * 2

    played(tmp_path, story)


def test_what_is_answered_within_the_minute_is_never_told(tmp_path: Path) -> None:
    """Most dialogs are answered at once; what cannot be recognised meanwhile ends nothing."""

    async def story(desk: Desk) -> None:
        agent = desk.office.agent("agent")
        for _ in range(3):
            agent.state = DIALOG
            await desk.lets_pass(30)
            agent.state = PresenceState.UNKNOWN
            await desk.lets_pass(10)
            agent.state = ACTIVE
            await desk.lets_pass(20)
        await desk.lets_pass(120)
        assert desk.told == []
        assert [one.ending for one in desk.episodes()] == ["answered"] * 3

    played(tmp_path, story)


def test_a_crash_repeats_a_notice_at_most_once_under_the_same_id(tmp_path: Path) -> None:
    """Told is noted after it went out: a crash between the two costs one repeat, never the notice."""

    async def story(desk: Desk) -> None:
        desk.office.agent("agent").state = DIALOG
        desk.dies = True
        await desk.lets_pass(90)
        assert len(desk.heard) == 1
        desk.dies = False
        await desk.restarts()
        await desk.lets_pass(300)
        assert len(desk.heard) == 2
        assert desk.heard[0].subject == desk.heard[1].subject

    played(tmp_path, story)


def test_nothing_is_told_while_a_person_looks_at_the_pane(tmp_path: Path) -> None:
    """A client in front with a key in the last 60 s: the person sees it; when they have left it standing, they hear of it."""

    async def story(desk: Desk) -> None:
        agent = desk.office.agent("agent")
        agent.state = DIALOG
        for _ in range(10):
            agent.last_key = desk.office.clock.wall()
            await desk.lets_pass(30)
        assert desk.told == []
        await desk.lets_pass(90)
        assert desk.told == [("@agent", "approval")]

    played(tmp_path, story)


def test_quiet_hours_hold_it_and_what_still_stands_is_told_when_they_end(tmp_path: Path) -> None:
    """In quiet hours nobody is told; what was answered in them is never told."""

    async def story(desk: Desk) -> None:
        desk.configure(quiet_hours=QuietHours.parse("00:00-01:10"))
        agent = desk.office.agent("agent")
        agent.state = DIALOG
        await desk.lets_pass(590)
        assert desk.told == []
        await desk.lets_pass(20)
        assert desk.told == [("@agent", "approval")]

    played(tmp_path, story)


def test_a_held_wake_and_its_agent_s_episode_are_told_once_together(tmp_path: Path) -> None:
    """A notice of a hold and one of an episode are never both sent for one fact, whichever is due first."""

    async def story(desk: Desk) -> None:
        agent = desk.office.agent("agent")
        agent.state = DIALOG
        desk.office.core.send(OTHER, AGENT, "a question")
        await desk.office.reads()
        await desk.lets_pass(1200)
        assert desk.told == [("@agent", "approval")]

        agent.state = ACTIVE
        await desk.lets_pass(60)
        desk.configure(notice_after_ms=10 * SECOND)
        agent.state = DIALOG
        await desk.lets_pass(300)
        assert desk.told == [("@agent", "approval"), ("@agent", "waitingOnApproval")]
        assert desk.episodes()[-1].told_at is not None

    played(tmp_path, story)


def test_a_limit_and_a_failed_turn_are_told_at_once_and_end_with_the_next_turn(tmp_path: Path) -> None:
    """A sign of the last turn neither proves idle nor speaks against it: mail is still delivered."""

    async def story(desk: Desk) -> None:
        agent = desk.office.agent("agent")
        agent.sign = AttentionKind.FAILED
        await desk.lets_pass(10)
        assert desk.told == [("@agent", "failed")]
        desk.office.core.send(OTHER, AGENT, "go on")
        await desk.office.reads()
        await desk.lets_pass(30)
        assert len(agent.received) == 1
        agent.state = ACTIVE
        await desk.lets_pass(10)
        agent.state, agent.sign = IDLE, AttentionKind.LIMITED
        await desk.lets_pass(10)
        assert desk.told == [("@agent", "failed"), ("@agent", "limited")]
        assert [one.ending for one in desk.episodes()] == ["went on", ""]

    played(tmp_path, story)


def test_agents_at_the_same_at_once_are_one_notice(tmp_path: Path) -> None:
    """A limit of one account stops many agents: the person hears of it once."""

    async def story(desk: Desk) -> None:
        desk.office.subscribe(OTHER, pane="other")
        await desk.office.reads()
        for name in ("agent", "other"):
            desk.office.agent(name).sign = AttentionKind.LIMITED
        await desk.lets_pass(60)
        assert desk.told == [("", "limited")]
        assert all(desk.episodes(who)[0].told_at is not None for who in (AGENT, OTHER))

    played(tmp_path, story)


def test_an_agent_that_is_gone_is_told_unless_its_person_ended_it(tmp_path: Path) -> None:
    """`gone` is an agent that ended by itself; one that was never seen, or that a person in front ended, is none."""

    async def story(desk: Desk) -> None:
        office = desk.office
        agent = office.agent("agent")
        await desk.lets_pass(30)
        del office.adapter.agents["agent"]
        await desk.lets_pass(10)
        assert desk.told == []
        await desk.lets_pass(60)
        assert desk.told == [("@agent", "gone")]
        office.adapter.agents["agent"] = agent
        await desk.lets_pass(60)
        assert [one.ending for one in desk.episodes()] == ["back"]

        agent.last_key = office.clock.wall()
        await desk.lets_pass(10)
        del office.adapter.agents["agent"]
        await desk.lets_pass(300)
        assert desk.told == [("@agent", "gone")]

    played(tmp_path, story)


def test_an_agent_that_idles_after_work_is_told_where_it_is_asked_for(tmp_path: Path) -> None:
    """`stopped` is off unless it is configured, and a turn ends it."""

    async def story(desk: Desk) -> None:
        agent = desk.office.agent("agent")

        async def works_and_stops() -> None:
            agent.state = ACTIVE
            await desk.lets_pass(30)
            agent.state = IDLE
            await desk.lets_pass(120)

        await works_and_stops()
        assert desk.episodes() == []
        desk.configure(attention=AttentionRules(of_identity={AGENT: frozenset({AttentionKind.STOPPED})}))
        await works_and_stops()
        assert desk.told == [("@agent", "stopped")]
        await works_and_stops()
        assert desk.told == [("@agent", "stopped")] * 2

    played(tmp_path, story)


def test_a_kind_that_is_switched_off_is_kept_and_not_told(tmp_path: Path) -> None:
    """`[attention] tell` decides on notices alone: `status` knows the episode all the same; a held wake is told as ever."""

    async def story(desk: Desk) -> None:
        desk.configure(attention=AttentionRules(tell=frozenset()))
        desk.office.agent("agent").state = DIALOG
        desk.office.core.send(OTHER, AGENT, "a question")
        await desk.office.reads()
        await desk.lets_pass(600)
        assert desk.told == []
        (episode,) = desk.episodes()
        assert (episode.kind, episode.where) == (AttentionKind.APPROVAL, "agent")
        await desk.lets_pass(400)
        assert desk.told == [("@agent", "waitingOnApproval")]

    played(tmp_path, story)


def test_an_identity_that_is_no_longer_watched_needs_nobody(tmp_path: Path) -> None:
    """An episode does not outlive the subscription that had its agent watched."""

    async def story(desk: Desk) -> None:
        subscription = desk.office.subscribe(OTHER, pane="other")
        desk.office.agent("other").state = DIALOG
        await desk.office.reads()
        await desk.lets_pass(30)
        desk.office.core.set(subscription, "status", "retired")
        await desk.office.reads()
        await desk.lets_pass(90)
        assert [one.ending for one in desk.episodes(OTHER)] == ["unwatched"]
        assert desk.told == []

    played(tmp_path, story)


def test_a_clock_that_is_set_back_holds_no_notice_for_ever(tmp_path: Path) -> None:
    """What began in a future that is none any more counts from the start."""

    async def story(desk: Desk) -> None:
        desk.office.agent("agent").state = DIALOG
        await desk.lets_pass(30)
        desk.office.clock.set_wall(-24 * 3600)
        await desk.restarts()
        began = desk.episodes()[0].began_at
        assert began <= Instant(desk.office.clock.now())
        await desk.lets_pass(70)
        assert desk.told == [("@agent", "approval")]

    played(tmp_path, story)


async def glimpses(desk: Desk, agent: ImaginedAgent, state: PresenceState, sign: AttentionKind | None = None) -> None:
    """One look, between two others, sees something else: a screen that was just drawn anew."""
    before = agent.state, agent.sign
    agent.state, agent.sign = state, sign
    await desk.office.watch.round()
    desk.office.episodes.look(desk.office.clock.now())
    desk.office.clock.turn(400)
    agent.state, agent.sign = before
    await desk.office.watch.round()
    await desk.lets_pass(5)


@pytest.mark.parametrize("glimpse", [IDLE, PresenceState.UNKNOWN, PresenceState.USER_TYPING])
@pytest.mark.parametrize("kind", [AttentionKind.APPROVAL, AttentionKind.FAILED, AttentionKind.LIMITED])
def test_a_screen_that_is_drawn_anew_begins_no_second_episode(
    tmp_path: Path, glimpse: PresenceState, kind: AttentionKind
) -> None:
    """A look between the old rows and the new ones may see neither: what stands there is one fact, told once."""

    async def story(desk: Desk) -> None:
        agent = desk.office.agent("agent")
        agent.state, agent.sign = (DIALOG, None) if kind is AttentionKind.APPROVAL else (IDLE, kind)
        await desk.lets_pass(70)
        for _ in range(3):
            await glimpses(desk, agent, glimpse)
        await desk.lets_pass(70)
        assert desk.told == [("@agent", kind)]
        assert [one.ending for one in desk.episodes()] == [""]

        agent.state, agent.sign = IDLE, None
        await desk.lets_pass(10)
        assert [one.ended_at is None for one in desk.episodes()] == [False]

    played(tmp_path, story)


def test_a_turn_that_is_seen_once_ends_what_stood_there(tmp_path: Path) -> None:
    """A sign of work is no missing row: the next dialog is another one, and is told in its own time."""

    async def story(desk: Desk) -> None:
        agent = desk.office.agent("agent")
        agent.state = DIALOG
        await desk.lets_pass(70)
        await glimpses(desk, agent, ACTIVE)
        assert [one.ending for one in desk.episodes()] == ["answered", ""]
        await desk.lets_pass(70)
        assert desk.told == [("@agent", "approval")] * 2

    played(tmp_path, story)


@pytest.mark.parametrize("glimpse", [IDLE, PresenceState.UNKNOWN])
def test_what_a_harness_says_of_itself_ends_nothing_that_its_screen_shows(
    tmp_path: Path, glimpse: PresenceState
) -> None:
    """A control plane that says idle knows nothing of the error on the screen, which is just drawn anew."""

    async def story(desk: Desk) -> None:
        agent = desk.office.agent("agent")
        desk.office.line(AGENT, "agent")
        agent.sign = AttentionKind.FAILED
        await desk.lets_pass(70)
        for _ in range(3):
            await glimpses(desk, agent, glimpse)
        assert desk.told == [("@agent", "failed")]
        assert [one.ending for one in desk.episodes()] == [""]
        agent.sign = None
        await desk.lets_pass(10)
        assert [one.ending for one in desk.episodes()] == ["went on"]

    played(tmp_path, story, channels=("channel",))


def test_what_no_channel_of_another_host_tells_is_told_here_once_until_it_is_over(tmp_path: Path) -> None:
    """With the host and the command that leads there; what that host has told itself is no news, and a link that is down ends nothing."""

    async def story(desk: Desk) -> None:
        began = desk.office.clock.now()

        def stands(name: str, *, is_unheard: bool = True) -> EpisodeElsewhere:
            way = "ssh -t me@devbox 'tmux attach'\x1b[31m"
            return EpisodeElsewhere("devbox", OTHER, name, AttentionKind.APPROVAL, began, way, is_unheard)

        desk.elsewhere = {"devbox": [stands("01A", is_unheard=False)]}
        await desk.lets_pass(30)
        assert desk.told == []
        desk.elsewhere = {"devbox": [stands("01A")]}
        await desk.lets_pass(30)
        (notice,) = desk.heard
        assert notice.title == "wake-bridge: @other on devbox waits for an approval (approval)"
        assert notice.body.startswith("To do: `ssh -t me@devbox 'tmux attach'\ufffd[31m`. For ")
        desk.elsewhere = {}
        await desk.restarts()
        await desk.lets_pass(30)
        desk.elsewhere = {"devbox": [stands("01A")], "attic": []}
        await desk.lets_pass(30)
        assert len(desk.heard) == 1
        assert desk.office.ledger.noticed() == {"on:devbox:01A"}
        desk.elsewhere = {"devbox": []}
        await desk.lets_pass(30)
        assert desk.office.ledger.noticed() == set()
        desk.elsewhere = {"devbox": [stands("01B")]}
        await desk.lets_pass(10)
        assert len(desk.heard) == 2
        desk.elsewhere, desk.unlinked = {}, {"attic"}
        await desk.lets_pass(30)
        assert desk.office.ledger.noticed() == {"on:devbox:01B"}
        desk.unlinked = {"devbox"}
        await desk.lets_pass(30)
        assert desk.office.ledger.noticed() == set()

    played(tmp_path, story)
