"""Compares what rewindow finds in captures with what tshark finds: `make corpus CAPTURES=DIR`.

Every difference must follow from a rule (docs/corpus.md). The rules are applied by a second reading of the packets, in
Python and from tshark's fields: where it arrives at the core's numbers, each packet that tshark counts otherwise has
its reason; where it does not, the difference is unexplained.
"""
