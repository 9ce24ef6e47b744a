"""Each harness's rule that allows the four mail commands without asking, and nothing else.

Measured on the programs themselves: docs/harnesses.md, "Reading mail without a dialog".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from wake_bridge.domain.errors import OperationFailed
from wake_bridge.domain.setup import SetupAgent
from wake_bridge.domain.values import dataclass
from wake_bridge.integrations.agent_files.json_file import NotJson, WrongShape, value_at, with_added, with_value
from wake_bridge.integrations.agent_files.record import WrittenFile
from wake_bridge.integrations.agent_files.text_file import HASH, Form, content_of, with_block

MAIL_COMMANDS: Final = ("inbox", "send", "ack", "read", "escalate", "seen")

_ORDERED: Final = tuple(f"wake-bridge {command} *" for command in MAIL_COMMANDS)

_WIDE: Final = b"Bash(wake-bridge "

Reader = Callable[[Path], bytes | None]
"""The content of a file; None where there is none."""

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class AllowRule:
    """One file that lets one harness read and send mail.

    Args:
        path: the file.
        form: how our part stands in it.
        edit: its new text from the present one.
        where: for JSON the names down to the array or object that holds our part.
        names: for JSON what is added there.
    """

    path: Path
    form: Form
    edit: Callable[[str], str]
    where: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def rule_for(agent: SetupAgent, home: Path, read: Reader) -> AllowRule | None:
    """What lets this agent's harness read its mail; None where nothing is needed, or nothing narrow enough is known."""
    make = _RULES.get(agent.harness)
    return make(agent, home, read) if make else None


def wide_rules(files: Iterable[WrittenFile]) -> list[str]:
    """Of the files we wrote to, those where our rule for Qwen Code's shell still stands: more than the mail commands gets by under it.

    None is written any more. Raises `OperationFailed` where a file cannot be read.
    """
    theirs = [Path(one.path) for one in files if Path(one.path).parent.name == ".qwen"]
    return [str(path) for path in theirs if _WIDE in (content_of(path) or b"")]


def in_json(path: Path, content: bytes, act: Callable[[str], Found]) -> Found:
    """Do something with the text of a file.

    Raises:
        OperationFailed: it is no text, or not what its harness expects; the file is named.
    """
    try:
        return act(content.decode())
    except UnicodeDecodeError as broken:
        raise OperationFailed("the file is not UTF-8", str(path), hint="fix it; nothing was changed") from broken
    except (NotJson, WrongShape, RecursionError) as broken:
        raise OperationFailed(
            f"the file cannot be changed ({broken})", str(path), hint="fix it; nothing was changed"
        ) from broken


def _claude(agent: SetupAgent, home: Path, read: Reader) -> AllowRule:  # noqa: ARG001 - all makers look alike
    path = agent.directory / ".claude" / "settings.local.json"
    where = ("permissions", "allow")
    names = tuple(f"Bash(wake-bridge {command} *)" for command in MAIL_COMMANDS)
    return AllowRule(path, Form.JSON, lambda text: with_added(text, where, names), where=where, names=names)


def _codex(agent: SetupAgent, home: Path, read: Reader) -> AllowRule:  # noqa: ARG001 - all makers look alike
    commands = ", ".join(f'"{command}"' for command in MAIL_COMMANDS)
    text = (
        "# Mail of wake-bridge is read and sent outside the sandbox, without a question.\n"
        f'prefix_rule(pattern = ["wake-bridge", [{commands}]], decision = "allow")\n'
    )
    return blocked(home / ".codex" / "rules" / "wake-bridge.rules", text)


def _gemini(agent: SetupAgent, home: Path, read: Reader) -> AllowRule:  # noqa: ARG001 - all makers look alike
    # no blank behind the last word: the engine adds the word's end itself
    prefixes = ", ".join(f'"wake-bridge {command}"' for command in MAIL_COMMANDS)
    text = (
        f'[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = [{prefixes}]\ndecision = "allow"\npriority = 100\n'
    )
    return blocked(home / ".gemini" / "policies" / "wake-bridge.toml", text)


def blocked(path: Path, block: str) -> AllowRule:
    """A marked block of ours in a file whose comments begin with `#`."""

    def edit(text: str) -> str:
        return with_block(text.encode(), block, HASH, path).decode()

    return AllowRule(path, Form.BLOCK, edit)


def _opencode(agent: SetupAgent, home: Path, read: Reader) -> AllowRule | None:
    return _ordered(_configurations(agent.directory, home, "opencode"), read)


def _kilo(agent: SetupAgent, home: Path, read: Reader) -> AllowRule | None:
    return _ordered(_configurations(agent.directory, home, "kilo"), read)


def _configurations(directory: Path, home: Path, name: str) -> tuple[Path, ...]:
    """Where OpenCode and its fork look, the one that wins first."""
    places = (directory / f".{name}", directory, home / ".config" / name)
    return tuple(place / f"{name}.{ending}" for place in places for ending in ("jsonc", "json"))


def _ordered(files: tuple[Path, ...], read: Reader) -> AllowRule | None:
    """A rule behind the one that asks: the last that matches wins. Where nothing asks, nothing is needed."""
    for path in files:
        content = read(path)
        if content is None:
            continue
        asked: Any = in_json(path, content, lambda text: value_at(text, ("permission",)))
        if isinstance(asked, str):
            return _behind(path, ("permission",), asked) if asked == "ask" else None
        inner = asked.get("bash", asked.get("*")) if isinstance(asked, dict) else None
        if inner is None:
            continue
        if isinstance(inner, dict):
            theirs = any(name.startswith("wake-bridge") and name not in _ORDERED for name in inner)
            return None if theirs else _behind(path, ("permission", "bash"), "")
        return _behind(path, ("permission", "bash"), inner) if inner == "ask" else None
    return None


def _behind(path: Path, where: tuple[str, ...], asked: str) -> AllowRule:
    """`asked` is the word that stood for all commands, and stays for all others."""
    wanted = dict.fromkeys(_ORDERED, "allow")

    def edit(text: str) -> str:
        if where == ("permission",):
            return with_value(text, where, {"*": asked, "bash": {"*": asked, **wanted}})
        if isinstance(value_at(text, where), str):
            return with_value(text, where, {"*": asked, **wanted})
        return with_added(text, where, {"*": asked, **wanted} if asked else wanted)

    return AllowRule(path, Form.JSON, edit, where=("permission", "bash"), names=tuple(wanted))


_RULES: Final[Mapping[str, Callable[[SetupAgent, Path, Reader], AllowRule | None]]] = MappingProxyType(
    {
        "claude": _claude,
        "codex": _codex,
        "gemini": _gemini,
        "opencode": _opencode,
        "kilo": _kilo,
    }
)
