"""One test for each entry of docs/paper-notes.md: the printed rule fails, what stands in its place holds.

Windows in segments, round-trip times in seconds where a controller is driven. Exact rationals, except for logarithms.
"""
