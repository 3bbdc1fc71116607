"""A service of rewindow from a script: uploads, downloads, searches. Nothing here loads the core."""
