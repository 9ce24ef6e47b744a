"""Screen profiles: what real terminal agents show, as data, and the engine that reads it.

    profiles = load_profiles()
    harness = recognise(argv, profiles)
    reading = classify(Screen.parse(ansi, ...), profiles[harness])

One TOML file a harness lies beside this module; a file of the same name in the user's directory replaces it.
"""

from wake_bridge.domain.programs import is_shell_or_veto
from wake_bridge_adapters.screens.classify import (
    ComposerState,
    Reading,
    classify,
    composer_is_empty,
    holds_only,
    mark_in_transcript,
)
from wake_bridge_adapters.screens.profile import Profile, recognise
from wake_bridge_adapters.screens.profile_file import load_profile, load_profiles
from wake_bridge_adapters.screens.screen import Screen
from wake_bridge_adapters.screens.version import Drift, drift_of, installed_version, is_seen, version_evidence
from wake_bridge_adapters.screens.workshop import (
    Capture,
    classify_capture,
    dump_capture,
    learnt_from,
    load_capture,
    override_for,
    profile_text,
    read_capture,
    what_is_new,
)

__all__ = [
    "Capture",
    "ComposerState",
    "Drift",
    "Profile",
    "Reading",
    "Screen",
    "classify",
    "classify_capture",
    "composer_is_empty",
    "drift_of",
    "dump_capture",
    "holds_only",
    "installed_version",
    "is_seen",
    "is_shell_or_veto",
    "learnt_from",
    "load_capture",
    "load_profile",
    "load_profiles",
    "mark_in_transcript",
    "override_for",
    "profile_text",
    "read_capture",
    "recognise",
    "version_evidence",
    "what_is_new",
]
