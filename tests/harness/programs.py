"""The real programs: what they are called in the registries, and how each is started against the mock model.

Dummy keys only, and a HOME of its own that is already past the questions of a first start.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

KEY: Final = "sk-test-dummy"


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a program is started: the model's address, the directory it works in; `has_plan`: its person pays by the month.

    Only such accounts have usage limits.
    """

    url: str
    work: Path
    has_plan: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """One program.

    Attributes:
        name: as wake-bridge calls it, and its executable.
        registry: where it comes from.
        package: what it is called there, with the version that the page speaks of.
        arguments: of its command line.
    """

    name: str
    registry: Literal["npm", "pypi"]
    package: str
    arguments: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """What a person types to start it."""
        return " ".join((self.name, *self.arguments))

    def environment(self, setting: Setting) -> Mapping[str, str]:
        """What points it at the model."""
        match self.name:
            case "claude":
                return {
                    "ANTHROPIC_BASE_URL": setting.url,
                    "CLAUDE_CODE_OAUTH_TOKEN" if setting.has_plan else "ANTHROPIC_AUTH_TOKEN": KEY,
                    "DISABLE_AUTOUPDATER": "1",
                    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                }
            case "codex":
                return {"OPENAI_API_KEY": KEY}
            case "gemini":
                return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": setting.url}
            case "qwen":
                url = f"{setting.url}/v1"
                return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url, "OPENAI_MODEL": "mock-model"}
            case "copilot":
                provider = {"COPILOT_PROVIDER_BASE_URL": f"{setting.url}/v1", "COPILOT_PROVIDER_API_KEY": KEY}
                return {**provider, "COPILOT_MODEL": "mock-model", "COPILOT_OFFLINE": "true"}
            case "opencode":
                return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
            case "cn":
                return {"CONTINUE_TELEMETRY_ENABLED": "0"}
            case "nanocoder":
                return {}
            case _:
                return {
                    "OPENAI_API_KEY": KEY,
                    "OPENAI_API_BASE": f"{setting.url}/v1",
                    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                }

    def files(self, setting: Setting) -> Mapping[str, str]:
        """Its configuration: paths below HOME, and what stands there."""
        match self.name:
            case "claude":
                project = {"allowedTools": [], "hasTrustDialogAccepted": True, "projectOnboardingSeenCount": 9}
                seen = {"lastOnboardingVersion": "99.0.0", "lastReleaseNotesSeen": "99.0.0"}
                first = {"hasCompletedOnboarding": True, "hasSeenAutoDefaultNotice": True, **seen}
                return {
                    ".claude.json": json.dumps({**first, "projects": {str(setting.work): project}}),
                    ".claude/settings.json": json.dumps({"theme": "dark"}),
                }
            case "codex":
                return {".codex/config.toml": _CODEX.format(url=setting.url, work=setting.work)}
            case "gemini":
                return {
                    ".gemini/settings.json": json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}),
                    ".gemini/trustedFolders.json": json.dumps({str(setting.work): "TRUST_FOLDER"}),
                }
            case "opencode":
                return {".config/opencode/opencode.json": json.dumps(_opencode(setting.url))}
            case "copilot":
                return {".copilot/config.json": json.dumps({"trusted_folders": [str(setting.work)]})}
            case "qwen":
                settings = {"general": {"enableAutoUpdate": False}, "tools": {"approvalMode": "default"}}
                # at times it asks how it does: a screen that rests would change by itself
                return {".qwen/settings.json": json.dumps({**settings, "ui": {"enableUserFeedback": False}})}
            case "cn":
                return {".continue/config.yaml": _CONTINUE.format(url=setting.url, key=KEY)}
            case "nanocoder":
                provider = {"name": "mock", "baseUrl": f"{setting.url}/v1", "apiKey": KEY, "models": ["mock-model"]}
                return {
                    ".config/nanocoder/agents.config.json": json.dumps({"nanocoder": {"providers": [provider]}}),
                    ".config/nanocoder/nanocoder-preferences.json": json.dumps(
                        {"trustedDirectories": [str(setting.work)]}
                    ),
                }
            case _:
                return {}


_CODEX: Final = """
model = "mock-model"
model_provider = "mock"
check_for_update_on_startup = false

[model_providers.mock]
name = "mock"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"

[tui]
screen_reader_detection_done = true

[projects."{work}"]
trust_level = "trusted"
"""

_CONTINUE: Final = """
name: mock
version: 1.0.0
schema: v1
models:
  - name: Mock
    provider: openai
    model: mock-model
    apiBase: {url}/v1
    apiKey: {key}
    roles: [chat, edit, apply]
"""


def _opencode(url: str) -> dict[str, object]:
    model = {"name": "Mock Model", "limit": {"context": 200000, "output": 8000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Mock",
        "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
        "models": {"mock-model": model},
    }
    return {
        "model": "mock/mock-model",
        "small_model": "mock/mock-model",
        "autoupdate": False,
        "provider": {"mock": provider},
        "permission": {"bash": "ask", "edit": "ask"},
    }


PROGRAMS: Final = {
    one.name: one
    for one in (
        Program("claude", "npm", "@anthropic-ai/claude-code@2.1.332", ("--permission-mode", "default")),
        Program("codex", "npm", "@openai/codex@0.171.0", ("-s", "read-only", "-a", "on-request")),
        Program("gemini", "npm", "@google/gemini-cli@0.61.0", ("-m", "gemini-2.5-flash")),
        Program("opencode", "npm", "opencode-ai@1.18.33"),
        Program("copilot", "npm", "@github/copilot@1.0.102"),
        Program("qwen", "npm", "@qwen-code/qwen-code@0.24.4", ("--auth-type", "openai")),
        Program(
            "aider",
            "pypi",
            "aider-chat==0.86.2",
            (
                "--model",
                "openai/mock-model",
                "--edit-format",
                "diff",
                "--no-check-update",
                "--no-show-model-warnings",
                "--no-show-release-notes",
                "--analytics-disable",
            ),
        ),
    )
}

WALKED: Final = {
    **PROGRAMS,
    "cn": Program("cn", "npm", "@continuedev/cli@1.5.47", ("--config", "../.continue/config.yaml")),
    "nanocoder": Program("nanocoder", "npm", "@nanocollective/nanocoder@1.30.0"),
}
"""And those that the canary alone walks: some states cannot be reached in them, and `make test-harness` wants all."""
