"""Replays of captures: batches of rows from the core, and the tables of a finished replay."""
