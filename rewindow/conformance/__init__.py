"""Checks whether a controller's steps conform to its specification: writes logs of steps as TLA+ and runs TLC on
them."""
