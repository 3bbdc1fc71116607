"""Runs jobs: fetches a capture, calls rewindow, writes the store."""
