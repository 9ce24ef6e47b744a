"""Recognises which harness a process is, by its argv. Pure.

Interpreters, launchers and what only carries a terminal are looked through; shells, editors and pagers are never an agent,
whatever their arguments say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final, Protocol

from wake_bridge.domain.values import dataclass


class Names(Protocol):
    """How one harness is called: as an executable or script, as an npm package, as a Python module."""

    @property
    def commands(self) -> Sequence[str]:
        """Names of executables and scripts."""

    @property
    def packages(self) -> Sequence[str]:
        """Names of npm packages."""

    @property
    def modules(self) -> Sequence[str]:
        """Names of Python modules."""


@dataclass(frozen=True, slots=True)
class Known:
    """The `Names` of a harness that is known without its screen profile."""

    commands: Sequence[str] = ()
    packages: Sequence[str] = ()
    modules: Sequence[str] = ()


HARNESSES: Final[Mapping[str, Names]] = {
    "aider": Known(("aider",), modules=("aider",)),
    "auggie": Known(("auggie",), ("@augmentcode/auggie",)),
    "claude": Known(("claude",), ("@anthropic-ai/claude-code",)),
    "cline": Known(("cline",), ("cline", "@cline/cli")),
    "cn": Known(("cn",), ("@continuedev/cli",)),
    "codex": Known(("codex",), ("@openai/codex",)),
    "copilot": Known(("copilot",), ("@github/copilot",)),
    "fake": Known(modules=("wake_bridge.demo.fake_harness",)),
    "gemini": Known(("gemini",), ("@google/gemini-cli",)),
    "gptme": Known(("gptme",), modules=("gptme",)),
    "kilo": Known(("kilo", "kilocode"), ("@kilocode/cli",)),
    "kimi": Known(("kimi", "kimi-cli", "Kimi", "Kimi Code"), modules=("kimi_cli",)),
    "nanocoder": Known(("nanocoder",), ("@nanocollective/nanocoder",)),
    "opencode": Known(("opencode",), ("opencode-ai",)),
    "pi": Known(("pi",), ("@mariozechner/pi-coding-agent",)),
    "qwen": Known(("qwen",), ("@qwen-code/qwen-code",)),
    "vibe": Known(("vibe", "Vibe", "Vibe CLI"), modules=("vibe",)),
}
"""What the bundled profiles say of it, for commands that have no time to read them; a test holds the two together."""

SHELLS: Final = frozenset(
    {"ash", "bash", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu", "pwsh", "sh", "tcsh", "xonsh", "zsh"}
)


class Carrier(StrEnum):
    """What can be known of the program behind one that only carries its terminal (docs/carriers.md).

    `SEEN`: its processes descend from the carrier, so all that holds in a pane holds there. `HIDDEN`: it runs on this machine,
    and nothing but the screen tells of it. `ELSEWHERE`: it runs on another host, and the screen is as old as the link.
    `OWN_PANES`: it runs in a pane of its own, which is an address of its own.
    """

    SEEN = "seen"
    HIDDEN = "hidden"
    ELSEWHERE = "elsewhere"
    OWN_PANES = "own panes"


CARRIERS: Final[Mapping[str, Carrier]] = {
    **dict.fromkeys(
        ("script", "sudo", "su", "runuser", "unshare", "nsenter", "bwrap", "asciinema", "devcontainer"), Carrier.SEEN
    ),
    **dict.fromkeys(
        ("docker", "podman", "nerdctl", "toolbox", "distrobox", "dtach", "abduco", "screen"), Carrier.HIDDEN
    ),
    **dict.fromkeys(("ssh", "mosh", "mosh-client", "et", "telnet", "kubectl"), Carrier.ELSEWHERE),
    "tmux": Carrier.OWN_PANES,
}

NOT_AGENTS: Final = SHELLS | frozenset(CARRIERS) | frozenset(
    {
        "scp", "sftp", "lxc", "machinectl", "chroot", "doas", "run0", "pkexec", "login",
        "vi", "vim", "nvim", "view", "vimdiff", "emacs", "emacsclient", "nano", "pico", "micro", "hx", "helix", "kak", "ed", "mcedit",
        "less", "more", "most", "man", "bat", "pg", "moar",
        "zellij", "byobu",
    }
)  # fmt: skip

LINE_READERS: Final = frozenset(
    {
        "cat", "tac", "tee", "tail", "bc", "dc", "awk", "gawk", "mawk", "ed", "w3m", "lynx", "fzf", "journalctl",
        "psql", "pgcli", "mysql", "mariadb", "mycli", "sqlite", "sqlite3", "litecli", "duckdb", "usql", "sqlplus", "sqlcmd",
        "redis-cli", "mongo", "mongosh", "cqlsh", "clickhouse-client", "gdb", "lldb", "pdb", "pdb3",
        "ipython", "ipython3", "bpython", "ptpython", "irb", "pry", "ghci", "jshell", "erl", "iex", "gnuplot", "octave",
        "R",
    }
)  # fmt: skip
"""What reads lines for itself, and would take a wake for its own: a REPL, a pager's like, a shell of a database."""

_READERS_OF_CODE: Final = re.compile(
    r"(?:node(?:js)?|bun|deno|pypy3?|python|perl|ruby|lua(?:jit)?|php|julia|tclsh)(?:[\d.]+)?"
)
_INTERACTIVE: Final = re.compile(r"-[A-Za-z]*i[A-Za-z]*|--interactive")
_REPL_MODULES: Final = frozenset({"IPython", "asyncio", "bpython", "code", "pdb", "ptpython", "sqlite3"})

_INTERPRETERS: Final = re.compile(r"(?:node(?:js)?|bun|deno|pypy3?|python)(?:[\d.]+)?")
_PACKAGE_RUNNERS: Final = frozenset({"npx", "bunx", "uvx", "pnpx"})
_PACKAGE_MANAGERS: Final = {
    "npm": {"exec", "x"},
    "pnpm": {"dlx", "exec"},
    "yarn": {"dlx", "exec"},
    "bun": {"x", "run"},
    "uv": {"run", "tool"},
    "pipx": {"run"},
}
_LAUNCHERS: Final = frozenset({"env", "nice", "nohup", "stdbuf", "setsid", "ionice", "time", "caffeinate"})
_LAUNCHER_FLAGS_WITH_VALUE: Final = frozenset({"-u", "-n", "-C", "-c"})
_FLAGS_WITH_VALUE: Final = frozenset(
    {"-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions", "-X", "-W"}
)
_FLAGS_WITH_CODE: Final = frozenset({"-c", "-e", "-p", "--eval", "--print"})
_VERSION: Final = re.compile(r"v?\d+(?:\.\d+)+(?:[-+.\w]*)?")
_WRAPPED: Final = re.compile(r"\.(.+?)-(?:un)?wrapped_*")
"""What Nix and devenv call the program that a wrapper of theirs starts: `.claude-wrapped`, `..claude-wrapped-wrapped`."""

_SCRIPT_ENDINGS: Final = (".js", ".mjs", ".cjs", ".ts", ".py", ".exe")


def harness_of(argv: Sequence[str], names: Mapping[str, Names] = HARNESSES) -> str | None:
    """The name of the harness this process is, out of those of which these names are known, or None."""
    words = list(program_of(argv))
    if not words or is_shell_or_veto(argv):
        return None
    for harness, known in names.items():
        for kind, word in words:
            if kind == "module" and word in known.modules:
                return harness
            if kind == "package" and word in known.packages:
                return harness
            if kind == "path" and (_program_name(word) in known.commands or _package_of(word) in known.packages):
                return harness
    return None


def is_shell_or_veto(argv: Sequence[str]) -> bool:
    """Whether this process is a shell, or another program that must never be typed into. No process at all is one."""
    rest = _past_launchers(argv)
    return not rest or _program_name(rest[0].removeprefix("-")) in NOT_AGENTS


def carrier_of(argv: Sequence[str]) -> tuple[str, Carrier] | None:
    """The name and kind of a process that only carries a terminal; None for any other."""
    names = [_program_name(word) for kind, word in program_of(argv) if kind == "path"]
    return next(((name, CARRIERS[name]) for name in names if name in CARRIERS), None)


_SSH_FLAGS_WITH_VALUE: Final = "BbcDEeFIiJLlmOoPpQRSWw"


def ssh_destination(argv: Sequence[str]) -> str:
    """Where an `ssh` leads, as one word that another ssh takes, user and port in it; empty where it leads nowhere."""
    words = iter(argv[1:])
    user, port, where = "", "", ""
    for word in words:
        if not word.startswith("-"):
            where = word
            break
        flag = next((place for place, one in enumerate(word) if one in _SSH_FLAGS_WITH_VALUE), 0)
        if not flag:
            continue
        value = word[flag + 1 :] or next(words, "")
        user, port = (value if word[flag] == "l" else user), (value if word[flag] == "p" else port)
    if not where or where.startswith("ssh://"):
        return where
    where = f"{user}@{where}" if user and "@" not in where else where
    return f"ssh://{where}:{port}" if port else where


def reads_lines(argv: Sequence[str]) -> bool:
    """Whether this process reads a person's lines for itself: a REPL, a pager's like, the shell of a database.

    It is no agent where a configured `harness` says so: an interpreter that is given no program, or `-i`, is one as well.
    """
    rest = _past_launchers(argv)
    name = _program_name(rest[0]) if rest else ""
    if name in LINE_READERS:
        return True
    if not _READERS_OF_CODE.fullmatch(name):
        return False
    arguments = list(rest[1:])
    kind, word = _script_or_module(arguments)
    if kind == "module":
        return word in _REPL_MODULES
    given = arguments.index(word) if word in arguments else len(arguments)
    is_interactive = any(_INTERACTIVE.fullmatch(one) for one in arguments[:given])
    has_code = any(one in _FLAGS_WITH_CODE for one in arguments)
    return is_interactive or word in {"-", "repl", "inspect", "debug"} or (not word and not has_code)


def is_runner(argv: Sequence[str]) -> bool:
    """Whether this process fetches and starts the program that it is given (`npx`, `uv run`), as a child of its own."""
    return any(kind == "package" for kind, _ in program_of(argv))


def _past_launchers(argv: Sequence[str]) -> Sequence[str]:
    """The argv behind `env X=1`, `nohup` and their like."""
    while argv and _program_name(argv[0]) in _LAUNCHERS:
        argv = argv[1:]
        while argv and (argv[0].startswith("-") or "=" in argv[0]):
            argv = argv[2:] if argv[0] in _LAUNCHER_FLAGS_WITH_VALUE else argv[1:]
    return argv


def is_interpreter(name: str) -> bool:
    """Whether a program of that name runs the program that it is given."""
    return _INTERPRETERS.fullmatch(name) is not None


def program_of(argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What may name the program, as (`path` | `package` | `module`, word).

    Its path, and behind an interpreter or a runner its script, package or module.
    """
    rest = _past_launchers(argv)
    if rest and rest[0].partition(" ")[0] in _PACKAGE_MANAGERS:  # npm writes its arguments over its argv, as one title
        rest = (*rest[0].split(), *rest[1:])
    if not rest:
        return
    yield "path", rest[0]
    name = _program_name(rest[0])
    arguments = list(rest[1:])
    if name in _PACKAGE_MANAGERS and arguments and arguments[0] in _PACKAGE_MANAGERS[name]:
        package = _first_operand(arguments[2:] if arguments[:2] == ["tool", "run"] else arguments[1:])
        yield "package", _without_version(package)
        yield "path", package
    elif name in _PACKAGE_RUNNERS:
        package = _first_operand(arguments)
        yield "package", _without_version(package)
        yield "path", package
    elif is_interpreter(name):
        yield _script_or_module(arguments)


def _first_operand(arguments: Sequence[str]) -> str:
    """The first argument that is no flag."""
    return next((word for word in arguments if not word.startswith("-")), "")


def _script_or_module(arguments: Sequence[str]) -> tuple[str, str]:
    """What an interpreter runs; an empty path behind a flag that brings the code itself."""
    words = iter(arguments)
    for word in words:
        if word in _FLAGS_WITH_CODE:
            break
        if word == "-m":
            return "module", next(words, "")
        if word in _FLAGS_WITH_VALUE:
            next(words, "")
        elif not word.startswith("-"):
            return "path", word
    return "path", ""


def _without_version(package: str) -> str:
    """`@scope/name@1.2` without its version."""
    at = package.rfind("@")
    return package[:at] if at > 0 else package


def _program_name(path: str) -> str:
    """The name behind directories, script endings, wrappers and versioned installations (`claude/versions/2.1.0`)."""
    parts = [part for part in PurePosixPath(path).parts if part not in {"/", "versions", "bin", "current"}]
    while parts and _VERSION.fullmatch(parts[-1]):
        parts.pop()
    name = parts[-1] if parts else ""
    while wrapped := _WRAPPED.fullmatch(name):
        name = wrapped[1]
    for ending in _SCRIPT_ENDINGS:
        name = name.removesuffix(ending)
    return name


def _package_of(path: str) -> str:
    """The npm package a script lies in: what follows the last `node_modules/`."""
    _, found, inside = path.rpartition("node_modules/")
    if not found:
        return ""
    parts = inside.split("/")
    return "/".join(parts[:2]) if inside.startswith("@") else parts[0]
