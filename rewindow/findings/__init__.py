"""Connections and subflows, what is wrong with them, a subflow's windows in brief, fairness among flows."""
