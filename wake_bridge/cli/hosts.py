"""`hosts` and `relay`: other hosts, reached by ssh or on the same graph, and what one of them runs here."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, TextIO

import click

from wake_bridge.cli.context import IDENTITY, CommandContext, pass_run

if TYPE_CHECKING:
    from wake_bridge.config.hosts import HostsFile, LinkedHost
    from wake_bridge.domain.names import Identity
    from wake_bridge.ports.leases import HostDesk


@click.group()
def hosts() -> None:
    """Link another host by ssh, so that mail from here wakes the agents there.

    Nothing listens anywhere: ssh runs `wake-bridge relay` on the other host (docs/many-hosts.md).
    """


@hosts.command("add")
@click.argument("name", metavar="NAME")
@click.option("--ssh", "destination", metavar="DEST", default="", help="What ssh is given; NAME without it.")
@click.option(
    "--program", metavar="COMMAND", default="", help="How wake-bridge is called there, if it is not on the PATH."
)
@pass_run
def add(run: CommandContext, name: str, destination: str, program: str) -> None:
    """Link a host: ssh to it once, check wake-bridge there, and hand over the key of the link.

    ssh must need no password (`ssh NAME true`), and the host's key must be known. Again for a host that is linked: the key is
    replaced.
    """
    import asyncio
    import secrets

    from wake_bridge.config.hosts import LinkedHost
    from wake_bridge.control.client import poke
    from wake_bridge.domain.errors import OperationFailed, UsageMistake
    from wake_bridge.domain.hosts import why_no_destination, why_no_host_name
    from wake_bridge.domain.receivers import KEY_BYTES, Secret, written_key
    from wake_bridge.integrations.hosts.connection import LinkBroken
    from wake_bridge.system.ulids import new_ulid

    _require_person(run)
    destination = destination or name
    if why := why_no_host_name(name):
        raise UsageMistake(why, name, hint="such as devbox")
    if why := why_no_destination(destination):
        raise UsageMistake(why, destination, hint=f"such as `wake-bridge hosts add {name} --ssh me@devbox.local`")
    file = _file(run)
    host = LinkedHost(
        name, destination, file.own_name(new_ulid()), Secret(written_key(secrets.token_bytes(KEY_BYTES))), program
    )
    try:
        hello, joined = asyncio.run(_join(host))
    except LinkBroken as broken:
        raise OperationFailed(str(broken), destination, hint=_hint(host)) from broken
    file.put(host)
    poke(run.places.state_dir)
    _tell(run, host, hello, joined)


async def _join(host: LinkedHost) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What the relay said of itself, and what it answered. Raises `LinkBroken`, or `UsageMistake` where it is this host."""
    import asyncio

    from wake_bridge.domain.errors import UsageMistake
    from wake_bridge.integrations.hosts.connection import HostConnection, LinkBroken
    from wake_bridge.ports.hosts import NotSentThere, UnansweredThere
    from wake_bridge.schemas.relay import ITSELF, JOIN

    connection = await HostConnection.open(host)
    serving = asyncio.create_task(connection.serve(lambda _: None))
    try:
        answer = await connection.ask(JOIN, link=host.link, key=host.key.reveal())
    except (NotSentThere, UnansweredThere) as lost:
        raise LinkBroken(str(lost)) from lost
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await connection.close()
    if answer.get("status") == ITSELF:
        raise UsageMistake(
            "ssh leads back to this host",
            host.destination,
            hint="name another machine: agents of this host need no link",
        )
    if answer.get("status") != 200:  # noqa: PLR2004 - HTTP's numbers are their own names
        raise LinkBroken(f"it does not take the link: {answer.get('why')}")
    return connection.hello, answer


def _hint(host: LinkedHost) -> str:
    return (
        f"`ssh {host.destination} wake-bridge --version` must answer without a question; install wake-bridge there, or say"
        " where it is: --program ~/venv/bin/wake-bridge"
    )


def _tell(run: CommandContext, host: LinkedHost, hello: Mapping[str, Any], joined: Mapping[str, Any]) -> None:
    agents = [str(one["agentIdentity"]) for one in joined.get("agents") or () if isinstance(one, dict)]
    record = {
        "host": host.name,
        "ssh": host.destination,
        "hostname": hello.get("host"),
        "version": hello.get("version"),
        "agents": agents,
        "trouble": joined.get("trouble") or None,
    }
    lines = [f"{host.name}: wake-bridge {hello.get('version')} on {hello.get('host')}"]
    if record["trouble"]:
        lines.append(f"note: {record['trouble']}")
    if agents:
        lines.append(f"agents there: {', '.join(agents)}")
        lines.append("to wake one for mail of the graph here:")
        lines.append(f"  wake-bridge agent add {agents[0]}")
        lines.append(f"  wake-bridge subscribe {agents[0]} --trigger SENT_TO_ME")
    else:
        lines.append("no agents there yet: on that host, `wake-bridge setup` or `wake-bridge bind @name` inside a pane")
    run.console.object(record, "\n".join(lines))


@hosts.command("list")
@pass_run
def list_hosts(run: CommandContext) -> None:
    """List the linked hosts, how each link stands, and who lives there; and the links that other hosts keep to this one.

    Where several hosts share a graph in PostgreSQL, list these as well, with the agents that each of them serves.
    """
    known = _file(run).known()
    told = {str(one["host"]): one for one in _told_by_daemon(run)}
    for name, host in known.linked.items():
        record = told.get(name) or _unknown_record(run, host)
        conflicts = record["conflicts"]
        lines = [f"{name}  {record['state'].replace('_', ' ')}  {', '.join(record['agents']) or 'no agents'}"]
        lines += [f"  {record['why']}"] if record["why"] else []
        lines += [f"  {who} has a place here as well: this host wakes it" for who in conflicts]
        run.console.line(record, "\n".join(lines))
    for link in known.incoming:
        run.console.line({"link": link, "state": "let in"}, f"{link}  links here, and may wake the agents of this host")
    sharing = _sharing(run, known.own)
    for record, line in sharing or ():
        run.console.line(record, line)
    if not known.linked and not known.incoming and sharing == []:
        run.console.say("no hosts; `wake-bridge hosts add NAME` links one that ssh can reach")


def _sharing(run: CommandContext, own: str) -> list[tuple[dict[str, Any], str]] | None:
    """The hosts that share the graph, each with its line; None, after a note to the person, where the graph does not answer."""
    from wake_bridge.domain.errors import OperationFailed, SourceError
    from wake_bridge.records import sharing_record
    from wake_bridge.storage.graph.opened import open_host_desk

    try:
        desk = open_host_desk(run.places.graph_place)
        found = desk.hosts() if desk is not None else ()
    except (SourceError, OperationFailed) as away:
        run.console.warn(f"note: which hosts share the graph cannot be told: {away}")
        return None
    if desk is not None:
        desk.close()
    lines = []
    for one in found:
        waiting = _waiting_here(run) if one.host == own else ()
        record = sharing_record(one, waiting)
        here = "  (this host)" if one.host == own else ""
        told = [f"{one.host}  {record['state']}  {', '.join(one.identities) or 'no agents'}{here}"]
        told += [f"  {record['why']}"] if record["why"] else []
        told += [
            f"  what waits here for {who} no other host knows of: `wake-bridge hosts move {who} {own}`"
            for who in waiting
        ]
        lines.append((record, "\n".join(told)))
    return lines


def _waiting_here(run: CommandContext) -> Sequence[Identity]:
    """For whom something waits here that only this host knows of, while another one serves them."""
    from wake_bridge.domain.causes import Cause
    from wake_bridge.domain.errors import LedgerError
    from wake_bridge.storage.ledger import LedgerStore

    try:
        ledger = LedgerStore.open(run.places.state_dir, read_only=True)
    except LedgerError:
        return ()
    with closing(ledger):
        held = ((one.identity, one.hold) for one in ledger.unsettled())
        return sorted({who for who, hold in held if hold is not None and hold.cause is Cause.KNOWN_HERE_ALONE})


@hosts.command("move")
@click.argument("identity", metavar="@ID", type=IDENTITY)
@click.argument("host", metavar="HOST")
@pass_run
def move(run: CommandContext, identity: str, host: str) -> None:
    """Have another host that shares the graph serve an agent: as soon as that sees it, and for as long as it does."""
    from wake_bridge.domain.names import Identity
    from wake_bridge.storage.graph.nodes import require_known

    _require_person(run, "which host serves an agent is a person's word")
    who = Identity(identity)
    with closing(_desk(run)) as desk:
        # another host may serve one whom only its own configuration knows
        if not desk.server_of(who):
            require_known(run.settings, who)
        before, after = desk.move(who, host)
    record = {"agentIdentity": identity, "from": before or None, "host": after}
    told = f"{after} takes {identity} as soon as it sees its agent"
    run.console.object(record, f"{told}; until now {before} serves it" if before and before != after else told)


@hosts.command("gone")
@click.argument("host", metavar="HOST")
@pass_run
def gone(run: CommandContext, host: str) -> None:
    """Say that a host will not come back: the others take its agents, and what it had begun ends as unknown.

    Nothing that it may have typed is typed again. If it comes back all the same, it joins again by itself.
    """
    _require_person(run, "that a host is gone is a person's word")
    with closing(_desk(run)) as desk:
        name, leases, intents = desk.gone(host)
    record = {"host": name, "leases": leases, "unknown": intents}
    run.console.object(record, f"{name} is gone: {leases} agents are free, {intents} of its wakes end as unknown")


def _desk(run: CommandContext) -> HostDesk:
    """Raises `UsageMistake` where no other host can be."""
    from wake_bridge.domain.errors import UsageMistake
    from wake_bridge.storage.graph.opened import open_host_desk

    desk = open_host_desk(run.places.graph_place)
    if desk is None:
        raise UsageMistake(
            "the graph is a file, and one host serves it",
            str(run.places.graph_place),
            hint="several hosts share a graph in PostgreSQL: graph.url (docs/many-hosts.md)",
        )
    return desk


def _told_by_daemon(run: CommandContext) -> Sequence[Mapping[str, Any]]:
    from wake_bridge.control.client import ask
    from wake_bridge.domain.errors import NotRunning, OperationFailed

    try:
        told = ask(run.places.state_dir, "hosts")["hosts"]
    except (NotRunning, OperationFailed):
        return ()
    return told if isinstance(told, list) else ()


def _unknown_record(run: CommandContext, host: LinkedHost) -> dict[str, Any]:
    from wake_bridge.config.hosts import agents_of_hosts
    from wake_bridge.records import link_record

    return link_record(host, "unknown", "no daemon runs here", agents_of_hosts(run.places.state_dir).get(host.name, ()))


@hosts.command("remove")
@click.argument("name", metavar="NAME")
@pass_run
def remove(run: CommandContext, name: str) -> None:
    """Unlink a host, or take nothing in any more of a link that another host keeps to this one."""
    from wake_bridge.control.client import poke
    from wake_bridge.domain.errors import NotFound

    _require_person(run)
    file = _file(run)
    host = file.known().linked.get(name)
    if host is None:
        if not file.shut_out(name):
            raise NotFound("there is no such host or link", name, hint="`wake-bridge hosts list` shows them")
        run.console.object({"host": name, "removed": True}, f"{name} may wake nobody here any more")
        return
    file.forget(name)
    poke(run.places.state_dir)
    there = "" if _leaves(host) else f"; on that host run `wake-bridge hosts remove {host.link}`"
    run.console.object({"host": name, "removed": True}, f"{name} is unlinked{there}")


def _leaves(host: LinkedHost) -> bool:
    """Have the other host forget the link; answers whether it did."""
    import asyncio

    from wake_bridge.integrations.hosts.connection import LinkBroken

    try:
        return asyncio.run(_leave(host))
    except LinkBroken:
        return False


async def _leave(host: LinkedHost) -> bool:
    import asyncio

    from wake_bridge.integrations.hosts.connection import HostConnection
    from wake_bridge.ports.hosts import NotSentThere, UnansweredThere
    from wake_bridge.schemas.relay import LEAVE

    connection = await HostConnection.open(host)
    serving = asyncio.create_task(connection.serve(lambda _: None))
    try:
        return (await connection.ask(LEAVE)).get("status") == 200  # noqa: PLR2004 - HTTP's numbers are their own names
    except (NotSentThere, UnansweredThere):
        return False
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await connection.close()


@click.command()
@pass_run
def relay(run: CommandContext) -> None:
    """Serve the link of another host on stdin and stdout. Its daemon runs this by ssh; nobody else has to."""
    from wake_bridge.domain.errors import UsageMistake
    from wake_bridge.integrations.hosts.relay import run_relay

    if not all(map(_is_channel, (sys.stdin, sys.stdout))):
        raise UsageMistake(
            "the relay speaks with a program, not with a terminal or a file",
            "relay",
            hint="on the other host run `wake-bridge hosts add NAME`, which starts it here by ssh",
        )
    run_relay(run.places.state_dir)


def _is_channel(stream: TextIO) -> bool:
    """Whether a program can be at the other end."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _require_person(run: CommandContext, why: str = "a link lets one host wake every agent of another") -> None:
    """Raises `RefusedForSafety`."""
    from wake_bridge.domain.errors import RefusedForSafety
    from wake_bridge.offline.owner import invoker

    who = invoker(run)
    if not who.is_person:
        raise RefusedForSafety(
            why,
            who.told,
            hint="a person can do this in their own shell, outside any agent",
        )


def _file(run: CommandContext) -> HostsFile:
    from wake_bridge.config.hosts import HostsFile

    return HostsFile(run.places.state_dir)
