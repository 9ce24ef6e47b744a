"""What `setup` prints: the plan, what the agents will be told, and the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wake_bridge.domain.values import dataclass

if TYPE_CHECKING:
    from wake_bridge.cli.context import CommandContext
    from wake_bridge.config.settings import Settings
    from wake_bridge.domain.setup import Plan, SetupAgent
    from wake_bridge.integrations.agent_files import FileChange
    from wake_bridge.integrations.agent_files.git_exclude import Untracked


def show_plan(run: CommandContext, made: Plan) -> None:
    """Who is to be called what, and what is to be done about it."""
    from wake_bridge.cli.panes import at_home

    run.console.table(
        ["identity", "agent", "pane", "directory", "what"],
        [
            [
                one.agent.identity,
                one.agent.harness,
                one.agent.pane,
                at_home(one.agent.directory),
                f"{one.step}, was {one.was}" if one.was else one.step.value,
            ]
            for one in made.proposals
        ]
        + [
            [
                one.identity,
                one.harness,
                one.pane,
                at_home(one.directory) if one.directory else "",
                "drop: another agent has the pane now",
            ]
            for one in made.dropped
        ],
    )


def show_instructions(run: CommandContext, made: Plan, missing: Sequence[FileChange]) -> None:
    """What the agents must be told and allowed, as long as it does not stand in their files."""
    from wake_bridge.cli.panes import at_home
    from wake_bridge.config.recipients import channels_of
    from wake_bridge.integrations.agent_files.plan import instructions_for

    if not missing:
        return
    example = made.proposals[0].agent
    instructions = instructions_for(_roommates(made, example), channels_of(run.settings.config))
    text = "\n".join(f"  {line}".rstrip() for line in instructions.splitlines())
    run.console.say(
        f"\nEach agent needs instructions and permission to read its mail. For example {example.identity}:\n\n{text}\n"
    )
    run.console.table(["file", "what"], [[at_home(one.path), one.what] for one in missing])


def show_hooks(run: CommandContext, outdated: Sequence[FileChange]) -> None:
    """The hooks and the plugin that were written before, and are to be written as this version does."""
    from wake_bridge.cli.panes import at_home

    if outdated:
        run.console.table(["file", "what"], [[at_home(one.path), f"update {one.what}"] for one in outdated])


def show_untracked(run: CommandContext, untracked: Sequence[Untracked]) -> None:
    """What git will show as new, said before it is there."""
    from wake_bridge.cli.panes import at_home

    if untracked:
        files = ", ".join(at_home(one.path) for one in untracked)
        run.console.say(
            f"git would show as untracked: {files}. `--git-exclude` lists them in .git/info/exclude, which is"
            " yours alone; `uninstall` removes files and lines."
        )


def _roommates(made: Plan, agent: SetupAgent) -> list[SetupAgent]:
    """All that share the agent's directory, and so its files."""
    return [one.agent for one in made.proposals if one.agent.directory == agent.directory]


@dataclass(frozen=True, slots=True)
class SetupOutcome:
    """What was done, or would be.

    `written` are identities, subscriptions and targets, `updated` hooks of an earlier version, `told` the agents' own
    files, `hidden` those of them that git would show as untracked.
    """

    settings: Settings
    made: Plan
    missing: Sequence[FileChange]
    hooks: Sequence[FileChange]
    untracked: Sequence[Untracked]
    dry_run: bool
    written: bool
    updated: bool
    told: bool
    hidden: bool

    def words(self) -> str:
        """For a person, with what to do next."""
        from wake_bridge.cli.panes import at_home, shown_place

        config, graph = at_home(self.settings.config_file), shown_place(self.settings.graph_place)
        lines = []
        if self.written:
            lines.append(f"written: the targets into {config}, identities and subscriptions into {graph}")
        elif self.made.changes:
            why = " (--dry-run)" if self.dry_run else ""
            lines.append(f"nothing was changed{why}: the targets would go into {config}, the rest into {graph}")
        elif not self.hooks:
            lines.append("everything is already set up; nothing was changed")
        if self.updated:
            files = ", ".join(at_home(one.path) for one in self.hooks)
            lines.append(f"updated: {files}; restart those agents (Codex asks once more whether to trust the hooks)")
        elif self.hooks:
            lines.append("not updated: the hooks of an earlier version")
        if self.told:
            count = f"{len(self.missing)} file{'s' if len(self.missing) > 1 else ''}"
            lines.append(f"instructions written: {count} for the agents; restart agents that already run")
        elif self.missing:
            how = "without --dry-run " if self.dry_run else ""
            lines.append(
                f"no instructions written: {how}`wake-bridge setup --write-instructions` writes them, marked, into these files"
            )
        lines += self._words_on_git()
        if self.written:
            example = next((one.agent.identity for one in self.made.proposals if one.is_ours), "@ID")
            lines.append(f'next: `wake-bridge run` in a pane of its own, then `wake-bridge wake {example} "hello"`')
        return "\n".join(lines)

    def _words_on_git(self) -> list[str]:
        from wake_bridge.cli.panes import at_home

        files = ", ".join(at_home(one.path) for one in self.untracked)
        if self.hidden:
            return [f"git does not show {files}: .git/info/exclude"]
        if not (self.told and self.untracked):
            return []
        return [
            f"git shows {files} as untracked: commit, or let `wake-bridge setup --git-exclude` list them in .git/info/exclude"
        ]

    def record(self) -> dict[str, Any]:
        """For a program."""
        from wake_bridge.config.recipients import channels_of
        from wake_bridge.integrations.agent_files.plan import instructions_for
        from wake_bridge.setup import TRIGGERS

        return {
            "written": self.written,
            "told": self.told,
            "config": str(self.settings.config_file),
            "graph": str(self.settings.graph_place),
            "triggers": [trigger.value for trigger in TRIGGERS],
            "agents": [
                {
                    "agentIdentity": one.agent.identity,
                    "harness": one.agent.harness,
                    "directory": str(one.agent.directory),
                    "pane": one.agent.pane,
                    "socket": one.socket or None,
                    "step": one.step.value,
                    "was": one.was or None,
                    "instructions": instructions_for(
                        _roommates(self.made, one.agent), channels_of(self.settings.config)
                    ),
                }
                for one in self.made.proposals
            ],
            "dropped": [{"agentIdentity": one.identity, "pane": one.pane} for one in self.made.dropped],
            "files": [{"path": str(one.path), "what": one.what} for one in self.missing],
            "hooks": [{"path": str(one.path), "what": one.what} for one in self.hooks],
            "updated": self.updated,
            "untracked": [str(one.path) for one in self.untracked],
            "hidden": self.hidden,
        }
