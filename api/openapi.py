"""The OpenAPI document on standard output: `python -m api.openapi`. The dashboard's types are made from it."""

from __future__ import annotations

import json
import sys

from api.app import routes


def main() -> int:
    json.dump(routes().openapi(), sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
