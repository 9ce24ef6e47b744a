"""`python -m wake_bridge`."""

from wake_bridge.cli.start import main

main()
