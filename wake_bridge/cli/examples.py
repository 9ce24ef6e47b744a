"""Two examples for every command, which its `--help` ends with; by the command's words."""

from __future__ import annotations

from typing import Final

_ID: Final = "01M8FQXY1DZ6BPD2SHH367VR0Y"

EXAMPLES: Final[dict[str, tuple[str, str]]] = {
    "": ("setup --dry-run", "status --watch"),
    "setup": ("setup --dry-run", "setup --yes --write-instructions"),
    "init": ("init", "init --graph ~/neo/memory.sqlite"),
    "agent": ("agent list", "agent add @reviewer"),
    "agent add": ("agent add @reviewer", "agent add @me --human"),
    "agent list": ("agent list", "agent list --json"),
    "subscribe": (
        "subscribe @reviewer --trigger SENT_TO_ME --tmux work:api",
        "subscribe @reviewer --trigger SENT_TO_ME --sender @boss --window 60",
    ),
    "unsubscribe": (f"unsubscribe {_ID}", f"unsubscribe {_ID} --foreign"),
    "update": (f"update {_ID} --window 60", f"update {_ID} --tmux work:api --recover"),
    "list": ("list", "list @reviewer"),
    "send": (
        'send @reviewer --from @me --subject "Please review" --body "Branch fix-42"',
        'send @reviewer --from @me --subject "Run the tests" --task --priority high',
    ),
    "wake": ('wake @reviewer "Look at your mail"', 'wake @reviewer "Go on" --from @me'),
    "task": (f"task {_ID} completed --as @reviewer", f"task {_ID} inputrequired --as @reviewer"),
    "grant": ("grant CAN_REPLY_TO --to @reviewer --as @me", "grant CAN_READ_INBOX_OF --to @boss --as @me"),
    "inbox": ("inbox @reviewer", "inbox @reviewer --bodies --consume"),
    "read": (f"read @reviewer {_ID}", f"read @reviewer {_ID} --keep"),
    "run": ("run", "run --once --dry-run"),
    "status": ("status", "status --watch"),
    "deliveries": ("deliveries --state held", "deliveries --target @reviewer --limit 5"),
    "deliveries show": (f"deliveries show {_ID}", f"deliveries show {_ID} --json"),
    "deliveries retry": (f"deliveries retry {_ID}", f"deliveries retry {_ID} --i-looked"),
    "pause": ("pause @reviewer --for 2h", "pause --all"),
    "resume": ("resume @reviewer", "resume --all"),
    "ack": (f"ack {_ID}", f"ack {_ID} --json"),
    "bind": ("bind @reviewer", "bind @reviewer --pane work:api.0"),
    "unbind": ("unbind @reviewer", "unbind @reviewer --json"),
    "resync": (f"resync {_ID} --since 0", f"resync {_ID} --since 1200"),
    "hook": ("hook install codex", "hook uninstall codex"),
    "hook install": ("hook install codex --dry-run", "hook install claude"),
    "hook uninstall": ("hook uninstall codex --dry-run", "hook uninstall claude"),
    "hook claude": ("hook claude", "hook claude Stop"),
    "hook codex": ("hook codex", "hook codex Stop"),
    "hook copilot": ("hook copilot", "hook copilot agentStop"),
    "hook gemini": ("hook gemini", "hook gemini AfterAgent"),
    "hook qwen": ("hook qwen", "hook qwen Stop"),
    "claude": ("claude install", "claude uninstall"),
    "claude install": ("claude install --dry-run", "claude install"),
    "claude uninstall": ("claude uninstall --dry-run", "claude uninstall"),
    "claude monitor": ("claude monitor", "claude monitor -v"),
    "service": ("service install", "service status"),
    "service install": ("service install", "service install --print"),
    "service uninstall": ("service uninstall", "service uninstall --force"),
    "service status": ("service status", "service status --json"),
    "uninstall": ("uninstall --dry-run", "uninstall --purge"),
    "panes": ("panes", "panes --json"),
    "why": (f"why {_ID}", f"why {_ID} @reviewer"),
    "routes": ("routes @reviewer", "routes @reviewer --explain"),
    "presence": ("presence @reviewer", "presence @reviewer --explain"),
    "screens": ("screens capture work:api.0", "screens trust work:api.0"),
    "screens capture": ("screens capture work:api.0", "screens capture %3 --output idle.txt"),
    "screens classify": ("screens classify idle.txt --harness codex", "screens classify a.txt b.txt --harness claude"),
    "screens trust": ("screens trust work:api.0", "screens trust work:api.0 --print"),
    "push-capable": ("push-capable", "push-capable --json"),
    "adapters": ("adapters", "adapters --json"),
    "config": ("config check", "config check --json"),
    "config check": ("config check", "--config other.toml config check"),
    "completion": (
        "completion bash > ~/.local/share/bash-completion/completions/wake-bridge",
        "completion fish > ~/.config/fish/completions/wake-bridge.fish",
    ),
    "logs": ("logs --follow", "logs --agent @reviewer --since 8h"),
    "doctor": ("doctor", "doctor --json"),
    "demo": ("demo", "demo --harness codex --keep"),
}


def epilog_of(words: str, program: str) -> str | None:
    """The examples as the end of a command's help; None where the command has none."""
    found = EXAMPLES.get(words)
    return "\b\nExamples:\n" + "\n".join(f"  {program} {one}" for one in found) if found else None
