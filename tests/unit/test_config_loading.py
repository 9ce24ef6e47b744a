"""Where settings come from, and what is said about mistakes in them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from tests.pages import settings as settings_page
from wake_bridge.config.channel_fields import ChannelTable
from wake_bridge.config.fields import Configuration, SenderTable, SourceTable, TargetTable
from wake_bridge.config.layers import keys_of
from wake_bridge.config.settings import (
    Settings,
    checked_adapter_tables,
    engine_settings,
    installed_adapters,
    load_settings,
)
from wake_bridge.domain.errors import ConfigurationInvalid
from wake_bridge.domain.names import Identity
from wake_bridge.engine.settings import KEY, EngineSettings, TargetSettings

EXAMPLE = Path(__file__).parents[2] / "config.example.toml"

Load = Callable[..., Settings]


class TmuxLikeConfig(BaseModel):
    """A stand-in for an adapter's own model."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    enabled: bool = True
    socket_name: str = ""
    history: int = 5


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads a configuration text as a file, with an environment of its own."""

    def load_text(text: str, environment: Mapping[str, str] | None = None) -> Settings:
        file = tmp_path / "config.toml"
        file.write_text(text, encoding="utf-8")
        return load_settings(str(file), environment or {})

    return load_text


def problems_of(load: Load, text: str, environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigurationInvalid) as caught:
        load(text, environment)
    assert caught.value.exit_code == 3
    return caught.value.problems


def test_without_a_file_every_key_has_its_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file = defaults, and the embedded graph lies in the platform's data directory."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    settings = load_settings(None, {})
    assert settings.config == Configuration()
    assert settings.source_files == ()
    assert settings.config_file == tmp_path / "config/wake-bridge/config.toml"
    assert settings.graph_place == tmp_path / "data/wake-bridge/graph.sqlite"
    assert settings.state_dir == tmp_path / "state/wake-bridge"


def test_the_default_place_is_read_when_nothing_else_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`<platform config dir>/wake-bridge/config.toml` comes last in the search."""
    file = tmp_path / "wake-bridge/config.toml"
    file.parent.mkdir()
    file.write_text("[coalesce]\nwindow = 3\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load_settings(None, {}).config.coalesce.window == 3


def test_the_option_beats_the_variable_that_names_a_file(tmp_path: Path) -> None:
    """Config search is `--config`, then `$WAKE_BRIDGE_CONFIG`."""
    for name, window in (("option", 1), ("variable", 2)):
        (tmp_path / name).write_text(f"[coalesce]\nwindow = {window}\n")
    environment = {"WAKE_BRIDGE_CONFIG": str(tmp_path / "variable")}
    assert load_settings(str(tmp_path / "option"), environment).config.coalesce.window == 1
    assert load_settings(None, environment).config.coalesce.window == 2


@pytest.mark.parametrize("named_by", ["--config", "$WAKE_BRIDGE_CONFIG"])
def test_a_named_file_that_is_missing_is_a_mistake(tmp_path: Path, named_by: str) -> None:
    """Only the default place may be empty; whoever names a file means it."""
    missing = str(tmp_path / "nowhere.toml")
    option = missing if named_by == "--config" else None
    environment = {} if option else {"WAKE_BRIDGE_CONFIG": missing}
    with pytest.raises(ConfigurationInvalid) as caught:
        load_settings(option, environment)
    assert caught.value.problems == (f"{missing}: there is no such file ({named_by} names it)",)


def test_overrides_beat_aliases_and_aliases_beat_the_file(load: Load) -> None:
    """`WAKE_BRIDGE_<SECTION>_<KEY>` beats aliases beats the file."""
    text = '[graph]\npath = "/file/graph"\n[daemon]\nstate_dir = "/file/state"\n[delivery]\nmax_attempts = 7\n'
    aliases = {
        "NEO_MEMORY_DB_PATH": "/alias/graph",
        "NEO_AI_DAEMON_DIR": "/alias/state",
        "WAKE_MAX_DELIVERY_RETRIES": "8",
    }
    from_file = load(text)
    assert (str(from_file.graph_place), str(from_file.state_dir)) == ("/file/graph", "/file/state")
    from_aliases = load(text, aliases)
    assert (str(from_aliases.graph_place), str(from_aliases.state_dir)) == ("/alias/graph", "/alias/state")
    assert from_aliases.config.delivery.max_attempts == 8
    from_override = load(text, aliases | {"WAKE_BRIDGE_GRAPH_PATH": "/override/graph"})
    assert str(from_override.graph_place) == "/override/graph"
    assert from_override.origins["graph", "path"] == "$WAKE_BRIDGE_GRAPH_PATH"


def test_overrides_reach_nested_tables_and_every_type(load: Load) -> None:
    """Nested keys are joined by `_`; text becomes the key's own type."""
    settings = load(
        "",
        {
            "WAKE_BRIDGE_PRESENCE_RELOOK_MIN": "1.5",
            "WAKE_BRIDGE_GRAPH_WATCH": "false",
            "WAKE_BRIDGE_GRAPH_SERVE": "mcp-notifications, a2a-webhook",
            "WAKE_BRIDGE_LIMITS_STORM": "3",
            "WAKE_BRIDGE_POLICY_QUIET_HOURS": "22:00-07:00",
            "WAKE_BRIDGE_ADAPTERS_TMUX_SOCKET_NAME": "private",
            "WAKE_BRIDGE_ADAPTERS_TMUX_ENABLED": "off",
            "TMUX_SESSION": "agents",
        },
    )
    assert settings.config.presence.relook.min == 1.5
    assert settings.config.graph.watch is False
    assert settings.config.graph.serve == ("mcp-notifications", "a2a-webhook")
    assert settings.config.limits.storm == 3
    assert settings.config.policy.quiet_hours == "22:00-07:00"
    assert settings.config.adapters == {"tmux": {"socket_name": "private", "enabled": False}}
    assert settings.fallback_pane == "agents"


def test_every_key_can_be_set_by_the_environment() -> None:
    """Every key has an override, and no two keys share one."""
    names = ["_".join(key).upper() for key in keys_of(Configuration)]
    assert len(names) == len(set(names))
    assert "PRESENCE_RELOOK_MAX" in names


def test_an_unknown_override_is_a_mistake_unless_it_is_for_tests(load: Load) -> None:
    """An unknown `WAKE_BRIDGE_*` is exit 3, except `CONFIG` and `TEST_*`."""
    assert load("", {"WAKE_BRIDGE_TEST_CRASH": "1"}).config == Configuration()
    assert problems_of(load, "", {"WAKE_BRIDGE_GRAPH_PTAH": "/x"}) == (
        '$WAKE_BRIDGE_GRAPH_PTAH: "/x": no setting has this name; did you mean WAKE_BRIDGE_GRAPH_PATH?',
    )


def test_all_mistakes_are_shown_at_once_with_file_key_value_and_what_was_meant(load: Load, tmp_path: Path) -> None:
    """A typo, a wrong type, an unknown table and a bad override in one go, each named exactly."""
    text = """
    [graph]
    pol_interval = 2
    watch = "yes"
    [coalesce]
    window = 301
    [adaptors.tmux]
    enabled = true
    [adapters.tmxu]
    enabled = true
    [targets."neo"]
    pane = "a"
    [targets."@neo"]
    polcy = "silent"
    adapter = "tmuxx"
    [policy]
    default = "immediat"
    """
    file = tmp_path / "config.toml"
    there = ", ".join(sorted(one.name for one in entry_points(group="wake_bridge.adapters")))
    found = set(problems_of(load, text, {"WAKE_BRIDGE_LIMITS_STORM": "many"}))
    assert found == {
        f"{file}: graph.pol_interval = 2: unknown key; did you mean poll_interval?",
        f'{file}: graph.watch = "yes": must be true or false',
        f"{file}: coalesce.window = 301: must be at most 300",
        f"{file}: adaptors: unknown table; did you mean adapters?",
        f"{file}: adapters.tmxu: no adapter named tmxu is installed (there are: {there}); did you mean tmux?",
        f"{file}: targets.neo: must be an identity such as @neo-gpt",
        f'{file}: targets."@neo".polcy = "silent": unknown key; did you mean policy?',
        f'{file}: targets."@neo".adapter = "tmuxx": no adapter named tmuxx is installed (there are: {there}); did you mean tmux?',
        f'{file}: policy.default = "immediat": must be one of auto, silent, next_turn, immediate; did you mean immediate?',
        '$WAKE_BRIDGE_LIMITS_STORM: limits.storm = "many": must be a whole number',
    }


def test_a_key_in_the_wrong_table_is_told_where_it_belongs(load: Load) -> None:
    """The hint "did you mean" also finds a key that is right elsewhere."""
    (problem,) = problems_of(load, "[delivery]\nwindow = 3\n")
    assert problem.endswith("unknown key; did you mean coalesce.window?")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[graph]\npoll_interval = 0.04", "must be at least 0.05"),
        ("[graph]\npoll_interval = 5.1", "must be at most 5"),
        ("[graph]\npoll_interval = nan", "must be a finite number"),
        ("[graph]\npoll_interval = true", "must be a number"),
        ("[graph]\nserve = 'x'", 'must be an array such as ["a", "b"]'),
        ("graph = 3", "must be a table"),
        ("[coalesce]\nwindow = -1", "must be at least 0"),
        ("[coalesce]\nwindow = 1.5", "must be a whole number"),
        ("[presence]\ntyping_quiet = 1.9", "must be at least 2"),
        ("[presence.relook]\nmin = 9\nmax = 8", "must not be below presence.relook.min (9)"),
        ("[delivery]\nlease = 10\nadapter_timeout = 10", "must be shorter than delivery.lease (10)"),
        ("[policy]\nquiet_hours = '22-7'", 'must be "HH:MM-HH:MM", such as "22:00-07:00"'),
        ("[policy]\nquiet_hours = '24:00-07:00'", 'must be "HH:MM-HH:MM", such as "22:00-07:00"'),
        (
            "[policy]\nquiet_hours = '07:00-07:00'",
            "starts and ends at the same time; leave it empty for no quiet hours",
        ),
        ("[digest]\naction = 'go {subject}'", "may hold {identity} and no other place-holder, not {subject}"),
        ("[digest]\nmax_lines = 11", "must be at most 10"),
        ("[targets.'@a']\nallow_from = ['b']", "must be an identity such as @neo-gpt"),
        ("[targets.'@a']\nwindow = 400", "must be at most 300"),
    ],
)
def test_each_range_and_format_is_checked(load: Load, text: str, reason: str) -> None:
    """Ranges and forms, each with a reason a person can act on."""
    (problem,) = problems_of(load, text)
    assert problem.endswith(reason)


def test_a_syntax_error_is_given_with_line_and_column(load: Load, tmp_path: Path) -> None:
    """A file that is not TOML says where it stops being it; bad overrides are shown beside it."""
    problems = problems_of(load, "[graph]\npath = \n", {"WAKE_BRIDGE_NONSENSE": "1"})
    assert problems[0] == f"{tmp_path / 'config.toml'}:2:8: is not TOML: Invalid value"
    assert problems[1].startswith("$WAKE_BRIDGE_NONSENSE")


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    """Whatever is wrong with the file is exit 3, never a traceback."""
    file = tmp_path / "config.toml"
    file.write_bytes(b"\xff\xfe")
    for path, reason in ((file, "is not UTF-8 text"), (tmp_path, "cannot be read")):
        with pytest.raises(ConfigurationInvalid) as caught:
            load_settings(str(path), {})
        assert reason in caught.value.problems[0]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[graph]\npath = "a\\u0000b"', "graph.path"),
        ('[human]\ncommand = ["tell", "a\\u0000"]', "human.command"),
        ('[escalation]\nsteps = [{ channel = "a\\u0000" }]', "escalation.steps"),
        ('[adapters.tmux]\nsocket_path = "/a\\u0000"', "adapters.tmux.socket_path"),
    ],
)
def test_a_nul_character_is_a_mistake_wherever_it_stands(load: Load, text: str, key: str) -> None:
    """No path and no argument can have one: exit 3 with the key, no fault of ours where it is used."""
    assert any(one.endswith(f"{key}: may not hold a NUL character") for one in problems_of(load, text))


@pytest.mark.parametrize("text", ["a = " + 5000 * "1", "a = " + 5000 * "["], ids=["digits", "brackets"])
def test_what_python_cannot_read_of_toml_is_a_mistake(load: Load, text: str) -> None:
    """A number of thousands of digits, or thousands of brackets: exit 3, no fault of ours."""
    (problem,) = problems_of(load, text)
    assert "TOML" in problem


def test_a_byte_order_mark_says_nothing(tmp_path: Path) -> None:
    """Some editors write one before the first character, and nobody sees it."""
    file = tmp_path / "config.toml"
    file.write_bytes(b"\xef\xbb\xbf[limits]\nstorm = 7\n")
    assert load_settings(str(file), {}).config.limits.storm == 7


def test_a_file_that_anyone_may_write_is_refused(tmp_path: Path) -> None:
    """Whoever may write the configuration chooses where keys are typed: a world-writable file is exit 3."""
    file = tmp_path / "config.toml"
    file.write_text("")
    file.chmod(0o666)
    with pytest.raises(ConfigurationInvalid) as caught:
        load_settings(str(file), {})
    assert "anyone may write this file" in caught.value.problems[0]
    file.chmod(0o664)
    assert load_settings(str(file), {}).config == Configuration()


def test_relative_paths_are_meant_from_the_file_and_from_the_working_directory(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path means what it meant where it was written: beside the file, or where the override was typed."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    text = '[graph]\npath = "g.sqlite"\n[daemon]\nlog_file = "~/wb.log"\n[screens]\ndirectory = "screens"\n'
    settings = load(text, {"WAKE_BRIDGE_DAEMON_STATE_DIR": "state"})
    assert settings.graph_place == tmp_path / "g.sqlite"
    assert settings.log_file == tmp_path / "home/wb.log"
    assert settings.screens_directory == tmp_path / "screens"
    assert settings.state_dir == elsewhere / "state"


def test_values_that_are_named_like_secrets_are_not_repeated(load: Load) -> None:
    """No keys, not even in an error message."""
    (problem,) = problems_of(load, "", {"WAKE_BRIDGE_WEBHOOK_SIGNING_KEY": "hunter2"})
    assert "hunter2" not in problem


def test_adapter_tables_are_checked_by_the_adapters_own_models(tmp_path: Path) -> None:
    """Each adapter checks its own table, with the same kind of message, all at once."""
    file = tmp_path / "config.toml"
    file.write_text("[graph]\nwatch = 1\n[adapters.tmux]\nsocket_nam = 'x'\nhistory = 'long'\n")
    with pytest.raises(ConfigurationInvalid) as caught:
        load_settings(str(file), {}, adapter_models={"tmux": TmuxLikeConfig})
    assert set(caught.value.problems) == {
        f"{file}: graph.watch = 1: must be true or false",
        f'{file}: adapters.tmux.socket_nam = "x": unknown key; did you mean socket_name?',
        f'{file}: adapters.tmux.history = "long": must be a whole number',
    }


def test_adapters_get_their_tables_made_by_their_models(load: Load) -> None:
    """A table, an override of its key, and an adapter without a table."""
    settings = load("[adapters.tmux]\nsocket_name = 'a'\n", {"WAKE_BRIDGE_ADAPTERS_TMUX_HISTORY": "9"})
    made = checked_adapter_tables(settings, {"tmux": TmuxLikeConfig, "other": TmuxLikeConfig})
    assert made == {"tmux": TmuxLikeConfig(socket_name="a", history=9), "other": TmuxLikeConfig()}
    wrong = load("[adapters.tmux]\nhistory = 1\n", {"WAKE_BRIDGE_ADAPTERS_TMUX_HISTORY": "few"})
    with pytest.raises(ConfigurationInvalid) as caught:
        checked_adapter_tables(wrong, {"tmux": TmuxLikeConfig})
    assert caught.value.problems == (
        '$WAKE_BRIDGE_ADAPTERS_TMUX_HISTORY: adapters.tmux.history = "few": must be a whole number',
    )


def test_the_example_and_the_page_are_written_from_the_declarations() -> None:
    """A key is declared once, with type, unit, default, range and a word about it; `make docs` writes the rest."""
    assert EXAMPLE.read_text(encoding="utf-8") == settings_page.example(), "stale: run `make docs`"
    page = settings_page.PAGE.read_text(encoding="utf-8")
    assert settings_page.with_keys(page) == page, "stale: run `make docs`"


def test_the_example_names_every_key_with_its_default() -> None:
    """Meta: config.example.toml loads, and with every comment taken away it still says exactly the defaults."""
    text = EXAMPLE.read_text(encoding="utf-8")
    assert Configuration.model_validate(tomllib.loads(text)) == Configuration(
        adapters={
            "tmux": {},
            "osascript": {},
            "claude": {},
            "codex": {},
            "copilot": {},
            "opencode": {},
            "qwen": {},
            "webhook": {},
            "heartbeat": {},
        }
    )
    open_text = re.sub(r"^# (?=[a-z_]+ = |\[)", "", text, flags=re.MULTILINE)
    tree = tomllib.loads(open_text)
    assert set(tree["channels"]["NAME"]) == set(ChannelTable.model_fields)
    # no kind takes all keys
    del tree["channels"]["NAME"]["command"], tree["channels"]["NAME"]["key"]
    example = Configuration.model_validate(tree)
    for key in keys_of(Configuration):
        written: object = tree
        for name in key:
            assert isinstance(written, dict)
            written = written[name]
    http = example.http.model_copy(update={"senders": {}})
    unnamed = {"adapters": {}, "targets": {}, "channels": {}, "http": http, "sources": {}}
    assert example.model_copy(update=unnamed) == Configuration()
    assert set(tree["sources"]["NAME"]) == set(SourceTable.model_fields)
    assert set(tree["http"]["senders"]["NAME"]) == set(SenderTable.model_fields)
    assert set(tree["targets"]["@neo-gpt"]) == set(TargetTable.model_fields)


def test_the_example_explains_every_key_in_the_order_of_the_contract() -> None:
    """Meta: each line of config.example.toml has a key and a word about it; sections stand in the contract's order."""
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    keys = [line for line in lines if re.match(r"^# [a-z_]+ = ", line)]
    assert all(re.search(r"\s# \S", line) for line in keys), keys
    sections = [line.lstrip("# ").split()[0] for line in lines if re.match(r"^(# )?\[", line)]
    assert sections == [
        "[graph]",
        "[daemon]",
        "[policy]",
        "[coalesce]",
        "[limits]",
        "[digest]",
        "[delivery]",
        "[presence]",
        "[presence.relook]",
        "[human]",
        "[attention]",
        "[escalation]",
        "[heartbeat]",
        "[channels.NAME]",
        "[http]",
        "[http.senders.NAME]",
        "[sources.NAME]",
        "[adapters.tmux]",
        "[adapters.osascript]",
        "[adapters.claude]",
        "[adapters.codex]",
        "[adapters.copilot]",
        "[adapters.opencode]",
        "[adapters.qwen]",
        "[adapters.webhook]",
        "[adapters.heartbeat]",
        "[screens]",
        '[targets."@neo-gpt"]',
    ]


def test_an_adapter_that_is_installed_while_we_run_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of entry points is kept for as long as no directory of packages has changed."""
    monkeypatch.syspath_prepend(tmp_path)
    before = installed_adapters()
    assert installed_adapters() is before

    package = tmp_path / "newcomer-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: newcomer\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[wake_bridge.adapters]\nnewcomer = nothing:Here\n")

    assert set(installed_adapters()) == {*before, "newcomer"}


def test_a_key_that_the_engine_reads_has_one_default_in_seconds_here_and_in_milliseconds_there(load: Load) -> None:
    """The engine's field names the key; without the key both say the same."""
    told = engine_settings(load(""), embedded=False)
    set_by_keys = {one.name: one.default for one in fields(EngineSettings) if KEY in one.metadata}

    assert len(set_by_keys) >= 9
    assert {name: getattr(told, name) for name in set_by_keys} == set_by_keys
    changed = engine_settings(load("[delivery]\nlease = 90\n[presence.relook]\nmin = 7\n"), embedded=False)
    assert (changed.lease_ms, changed.relook_min_ms) == (90_000, 7_000)


def test_a_target_takes_every_key_that_bears_the_name_of_a_field(load: Load) -> None:
    """What is not taken by its name is taken by a rule of its own."""
    text = '[targets."@a"]\nadapter = "codex"\npane = "w:1"\nsteer = true\nallow_from = ["@b"]\ndigest = "full"\n'
    target = engine_settings(load(text), embedded=False).targets[Identity("@a")]

    assert target == TargetSettings("codex", "w:1", steer=True, allow_from=frozenset({"@b"}), wants_bodies=True)
    assert {one.name for one in fields(TargetSettings)} - set(TargetTable.model_fields) == {"wants_bodies"}
