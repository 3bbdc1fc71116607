"""Replays of captures: batches of rows from the core, and what it found."""
