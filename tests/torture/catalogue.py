"""All runs of the bench, in the order in which they begin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tests.torture import (
    answers,
    clocks,
    hazards,
    hostility,
    hosts,
    hung,
    identity,
    kills,
    late,
    leases,
    lifecycle,
    malformed,
    malformed_mcp,
    malformed_page,
    operation_faults,
    posts,
    races,
    replaced,
    restless,
    soak,
    source,
    state,
    storms,
    submits,
    typists,
    week,
    writers,
)
from tests.torture.report import Table
from tests.torture.run import Course, Run
from tests.torture.suites import suite
from tests.torture.tested import TESTED


def random_kills(course: Course) -> Sequence[Table]:
    """Daemons killed under load."""
    return [kills.kill_at_random(course.directory, course.tmux(), kills=course.count(10, 200), seed=course.seed)]


def kills_at_steps(course: Course) -> Sequence[Table]:
    """Daemons killed at their worst moments."""
    times, lanes = course.count((1, 8), (32, 8))
    return [kills.kill_at_steps(course.directory, course.tmux(), times=times, seed=course.seed, lanes=lanes)]


def faults(course: Course) -> Sequence[Table]:
    """Operations that fail; in the short form every sixteenth, another one with each seed."""
    stride, stripes = course.count((16, 1), (1, 4))
    return [
        operation_faults.fail_everything(
            course.directory, course.tmux(), lanes=8, stripes=stripes, stride=stride, first=1 + course.seed % stride
        )
    ]


def people(course: Course) -> Sequence[Table]:
    """Persons at the keys."""
    tmux = course.tmux()
    return [
        typists.type_at_random(course.directory, tmux, count=course.count(24, 400), seed=course.seed),
        typists.type_at_chosen_moments(course.directory, tmux, times=course.count(4, 48), seed=course.seed),
        typists.type_beside(course.directory, tmux, count=course.count(4, 40)),
    ]


def lateness(course: Course) -> Sequence[Table]:
    """Programs that are late at any step."""
    cells = [*late.every_cell(course.count((4.0, 12.0), late.LATENESS))]
    return [late.be_late(course.directory, course.tmux(), cells)]


def hostile(course: Course) -> Sequence[Table]:
    """Texts that mean harm."""
    tmux, seed = course.tmux(), course.seed
    subjects, after_exit = course.count((32, 8), (600, 32))
    return [
        hostility.render(count=course.count(2_000, 20_000), seed=seed),
        hostility.send_bodies(course.directory, tmux, count=course.count(200, 10_000), seed=seed),
        hostility.send_subjects(course.directory, tmux, count=subjects, after_exit=after_exit, seed=seed),
    ]


def posted(course: Course) -> Sequence[Table]:
    """Daemons killed while they post; and two hosts with a cable that is out for ten minutes in the long form."""
    two_hosts = suite(
        "Two hosts with a cable that is pulled",
        "end_to_end/test_serve.py::test_two_hosts_with_a_cable_that_is_pulled_wake_once_each",
    )
    return [
        posts.kill_while_posting(course.directory, course.tmux(), times=course.count(1, 20), seed=course.seed),
        *two_hosts(course),
    ]


def linked_mail(course: Course) -> Sequence[Table]:
    """Mail between two hosts that are linked by ssh, over a cable that is cut."""
    messages = course.count(38, 700)
    return [
        hosts.strike_all(course.directory, course.tmux(), messages=messages, seed=course.seed, is_long=course.is_long)
    ]


def linked_answers(course: Course) -> Sequence[Table]:
    """Mail between them that has to be answered."""
    messages = course.count(38, 350)
    return [answers.answer_all(course.directory, course.tmux(), messages=messages, seed=course.seed)]


linked_bytes: Final = suite(
    "A link that is cut at every byte of the protocol",
    "integration/test_host_links.py::test_a_link_that_is_cut_at_any_byte_loses_and_doubles_nothing",
    "integration/test_answers_of_hosts.py::test_a_link_that_is_cut_at_any_byte_loses_no_answer",
    "end_to_end/test_hosts.py",
    "end_to_end/test_releases_linked.py",
)


def linked(course: Course) -> Sequence[Table]:
    """All of it: in the protocol at every byte in the long form."""
    return [*linked_mail(course), *linked_answers(course), *linked_bytes(course)]


def many_hosts(piece: str) -> Callable[[Course], Sequence[Table]]:
    """One piece of the trials of several hosts on one graph: 2 to 8 of them."""
    count = 8 if piece == "eight" else 3

    def play(course: Course) -> Sequence[Table]:
        return [
            leases.strike(
                course.directory,
                piece,
                hosts=course.count(2, count),
                agents=course.count(4, 8 if piece == "eight" else 10),
                times=course.count(1, LEASE_TIMES.get(piece, 1)),
                seed=course.seed,
                most=course.count(4, 8) if piece == "eight" else None,
            )
        ]

    return play


def standstill(course: Course) -> Sequence[Table]:
    """One daemon is stopped for ten minutes."""
    return [leases.stand_still(course.directory, seconds=600, every=60, hosts=3, agents=9)]


def open_transaction(course: Course) -> Sequence[Table]:
    """A transaction stays open for five minutes."""
    return [leases.wait_for_nobody(course.directory, seconds=305, hosts=3, agents=8)]


LEASE_TIMES: Final = {"server": 2, "clocks": 2}
"""How often each trouble is played in the long form: what takes eight minutes on two cores at most."""

LINKED: Final = (
    Run("hosts-mail", ("G-C1",), "mail: kills, standstills, cuts and full disks", linked_mail),
    Run("hosts-answers", ("G-C1",), "the same while mail is answered on either host", linked_answers),
    Run("hosts-bytes", ("G-C1",), "the link cut at every byte of wakes and of answers", linked_bytes),
)
"""Two hosts that are linked by ssh, in pieces of minutes."""

_GOALS_OF_HOSTS: Final = ("G-P1", "G-C1", "G-T2")
MANY_HOSTS: Final = (
    *(
        Run(f"leases-{piece}", _GOALS_OF_HOSTS, what, many_hosts(piece), measured="held while cut off")
        for piece, what in (
            ("steps", "kill -9 of a daemon at 15 steps"),
            ("stops", "daemons killed, stopped, declared gone, agents moved"),
            ("lines", "lines that are cut, stall or break, also within a commit"),
            ("partition", "cables between network namespaces cut in five ways, also half open"),
            ("server", "kill -9 of the database, failover to a replica, also to one that lags"),
            ("clocks", "clocks set by an hour either way, for daemon and tmux"),
            ("eight", "eight hosts at once, and all of that"),
        )
    ),
    Run("leases-standstill", _GOALS_OF_HOSTS, "a daemon stopped for ten minutes", standstill, mostly_waits=True),
    Run(
        "leases-open", _GOALS_OF_HOSTS, "a transaction open for five minutes", open_transaction, True, "told behind it"
    ),
)
"""Several hosts on one graph, in pieces of minutes."""

PLAYED: Final = (
    # those that mostly wait, the longest first
    Run(
        "soak",
        ("G-L5",),
        "a long life under everyday mail: memory, descriptors, nothing lost",
        lambda course: [soak.soak(course.directory, course.tmux(), seconds=course.count(120, 1_800), seed=course.seed)],
        mostly_waits=True,
    ),
    Run(
        "restless",
        ("G-T3",),
        "a person who moves twelve agents about, also in the middle of their wakes",
        lambda course: restless.be_restless(
            course.directory, course.tmux(), seconds=course.count(45, 1_800), seed=course.seed
        ),
        mostly_waits=True,
    ),
    Run(
        "stopped",
        ("G-T2",),
        "SIGSTOP, ten minutes in the long form",
        lambda course: [
            clocks.stand_still(course.directory, course.tmux(), seconds=course.count(15, 600), times=course.count(2, 1))
        ],
        mostly_waits=True,
    ),
    Run(
        "full-disk",
        ("G-D1",),
        "no room under the ledger",
        lambda course: [state.fill_the_disk(course.directory, course.tmux(), seconds=course.count(70, 300))],
        mostly_waits=True,
    ),
    Run(
        "hung",
        ("G-H1",),
        "a place that does not answer holds up nobody else",
        lambda course: [hung.hang(course.directory, course.tmux(), messages=course.count(12, 100))],
        mostly_waits=True,
    ),
    Run(
        "watchdog",
        ("G-L6",),
        "no sign of life: started anew within 30 s",
        lambda course: [
            lifecycle.starve(course.directory, course.tmux(), times=course.count(1, 15)),
            *suite(
                "What the service manager is told",
                "end_to_end/test_daemon_life.py::test_the_service_manager_hears_ready_signs_of_life_a_reload_and_the_stop",
                "end_to_end/test_daemon_life.py::test_the_watchdog_starves_while_the_tail_is_stuck",
                "end_to_end/test_service_start.py",
            )(course),
        ],
        mostly_waits=True,
    ),
    Run(
        "standstill",
        ("G-H1",),
        "a tmux server that stands still for 11 s",
        lambda course: [hazards.stop_tmux(course.directory, times=course.count(2, 12))],
        mostly_waits=True,
    ),
    Run("late", ("G-T7",), "programs that are late at any step: nothing is sent twice", lateness, mostly_waits=True),
    Run(
        "no-hints",
        ("G-S2",),
        "nothing but the poll says that there is something",
        lambda course: [
            source.without_hints(course.directory, course.tmux(), messages=course.count(200, 2_000), seed=course.seed)
        ],
        mostly_waits=True,
    ),
    # those that work
    Run("random-kills", ("G-C2",), "kill -9 at random moments under 50 messages a second", random_kills),
    Run("kills", ("G-C1", "G-C3"), "kill -9 before and after every journalled step", kills_at_steps),
    Run(
        "posts",
        ("G-C1",),
        "kill -9 before and after every step of a posted wake: none lost, one eventId",
        posted,
    ),
    Run(
        "hosts",
        ("G-C1",),
        "two hosts linked by ssh: kills, standstills, cuts and full disks; no mail and no answer lost, none twice",
        linked,
        pieces=LINKED,
    ),
    Run(
        "leases",
        _GOALS_OF_HOSTS,
        "several hosts on one graph: kills at 15 steps, standstills, partitions, failovers, clocks; judged by the history of all",
        many_hosts("eight"),
        pieces=MANY_HOSTS,
    ),
    Run("faults", ("G-C4",), "every operation of a wake fails once, in every way", faults),
    Run("typists", ("G-T6",), "a person types at any moment of a wake", people),
    Run("hostile", ("G-T4",), "hostile subjects and bodies, judged byte by byte", hostile),
    Run(
        "malformed",
        ("G-T4",),
        "malformed requests and slow clients at every entrance over HTTP: no crash, memory flat",
        lambda course: [
            entrance.knock(course.directory / name, count=course.count(2_000, 100_000), seed=course.seed)
            for name, entrance in (("wakes", malformed), ("mcp", malformed_mcp), ("page", malformed_page))
        ],
        measured="grew",
    ),
    Run(
        "items",
        ("G-L5",),
        "10,000 items a minute from one source: none lost, one notice, no more wakes than before a storm, memory",
        lambda course: [storms.storm(course.directory, course.tmux(), minutes=course.count(0.25, 10))],
    ),
    Run(
        "hazards",
        ("G-T5", "G-T7", "G-T8"),
        "swallowed Enters, dialogs, shells, resizes between look and proof",
        lambda course: [hazards.meet_hazards(course.directory, course.tmux(), times=course.count(1, 6))],
    ),
    Run(
        "submits",
        ("G-T7",),
        "Enters ignored at random: what is said to be submitted was",
        lambda course: [
            submits.swallow(course.directory, course.tmux(), count=course.count(40, 1_000), seed=course.seed)
        ],
    ),
    Run(
        "writers",
        ("G-P1",),
        "two bridges and three identities at one pane",
        lambda course: [writers.wake_at_once(course.directory, course.tmux(), count=course.count(6, 100))],
    ),
    Run(
        "races",
        ("G-P1",),
        "three daemons started at once on one state directory",
        lambda course: [
            races.race(course.directory, course.tmux(), count=course.count(9, 210), seed=course.seed),
            races.race_for_graph(course.directory, course.tmux(), count=course.count(6, 90), seed=course.seed),
        ],
    ),
    Run(
        "cycles",
        ("G-L4",),
        "starts and stops at random moments",
        lambda course: [
            lifecycle.cycle(course.directory, course.tmux(), count=course.count(10, 100), seed=course.seed)
        ],
    ),
    Run(
        "reloads",
        ("G-L7",),
        "bad configurations under load",
        lambda course: lifecycle.reload_badly(
            course.directory, course.tmux(), times=course.count(1, 10), seed=course.seed
        ),
    ),
    Run(
        "clocks",
        ("G-T1",),
        "the wall clock set by a day and by five minutes",
        lambda course: [clocks.set_the_clock(course.directory, course.tmux(), times=course.count(1, 5))],
    ),
    Run(
        "damaged-state",
        ("G-D2",),
        "a ledger that is damaged or gone",
        lambda course: [state.damage_all(course.directory, course.tmux(), times=course.count(1, 5))],
    ),
    Run(
        "state-size",
        ("G-D3",),
        "a million events with a retention of 90 days",
        lambda course: [state.grow(course.directory, events=course.count(20_000, 1_000_000))],
    ),
    Run(
        "strangers",
        ("G-T3",),
        "panes and servers that are not the ones that were meant",
        lambda course: identity.keep_out(course.directory, count=course.count(24, 510), seed=course.seed),
    ),
    Run(
        "tail",
        ("G-S1",),
        "four writers with rollbacks, checkpoints and VACUUM",
        lambda course: [
            source.tail_all(course.directory, course.tmux(), rows=course.count(8_000, 100_000), seed=course.seed)
        ],
    ),
    Run(
        "replaced",
        ("G-S3", "G-S4"),
        "graphs replaced, restored, begun anew; cursors lost",
        lambda course: [replaced.strike_all(course.directory, course.tmux(), times=course.count(1, 5))],
    ),
    Run(
        "backlog",
        ("G-S7",),
        "a start into a million rows",
        lambda course: [source.catch_up(course.directory, course.tmux(), rows=course.count(100_000, 1_000_000))],
    ),
    Run(
        "no-trace",
        ("G-S8",),
        "the source is left as it is, and its readers are short",
        lambda course: [source.leaves_no_trace(course.directory, course.tmux(), rounds=course.count(100, 1_000))],
    ),
    Run(
        "week",
        ("G-T2", "G-D3"),
        "a week with a laptop that sleeps every night, 5,000 messages",
        lambda course: [
            week.live_a_week(
                course.directory,
                days=course.count(3, 7),
                messages=course.count(150, 5_000),
                seed=course.seed,
            )
        ],
    ),
)
RUNS: Final = (*PLAYED, *TESTED)
