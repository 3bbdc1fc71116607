"""The REST API. Never worker, never the C core."""
