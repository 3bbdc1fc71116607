"""The REST API. It imports neither the worker nor the C core."""
