"""`python -m wake_bridge`."""

from wake_bridge.cli.app import main

main()
