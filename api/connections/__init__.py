from api.connections import service

__all__ = ["service"]
