"""The AppleScripts, as files: none is ever composed (docs/macos.md "The scripts")."""
