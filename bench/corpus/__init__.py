"""Compares rewindow's numbers on captures with tshark's: `make corpus CAPTURES=DIR`.

Every difference must follow from a rule (docs/corpus.md). This package applies the rules to the packets as tshark
prints them. If its numbers equal the core's, each packet that tshark counts differently has a reason; if they do not,
the difference is unexplained.
"""
