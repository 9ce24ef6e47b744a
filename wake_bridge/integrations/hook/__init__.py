"""The program that a harness runs as its hook; quick to start, for it stands in the way of every tool.

Nothing here may import more than the standard library's quick modules, or what does.
"""
