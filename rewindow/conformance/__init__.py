"""Does what a controller did conform to its specification? Logs of steps become TLA+, on which TLC is run."""
