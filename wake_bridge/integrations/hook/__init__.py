"""The program that a harness runs as its hook. It starts quickly, because every tool call waits for it.

Nothing here may import more than the standard library's quick modules, or what does.
"""
