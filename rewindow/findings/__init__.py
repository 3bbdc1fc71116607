"""Connections and subflows, findings about them, a summary of a subflow's windows, fairness among flows."""
