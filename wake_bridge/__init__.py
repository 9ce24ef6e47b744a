"""wake-bridge: wakes idle terminal coding agents when something arrives for them in a shared graph."""

import sys

__version__ = "0.2.0.dev0"


class _FormerNames:
    """Modules by names that they had in the release before, for adapters of third parties; asked when nobody else knows."""

    @staticmethod
    def find_spec(name, path=None, target=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN205, ARG004
        if not name.startswith(("wake_bridge.", "adapters")):
            return None
        from wake_bridge.former_names import spec_of  # noqa: PLC0415 - hardly ever asked, and hooks are in a hurry

        return spec_of(name)


sys.meta_path.append(_FormerNames)
