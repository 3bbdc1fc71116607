"""Teams and tokens from the shell: `python -m store.admin token TEAM [--scope read ...] [--keep TOKEN]`."""

from __future__ import annotations

import argparse
import sys

from store.database import engine
from store.teams import create_token, ensure_team, holds
from store.tokens import SCOPES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    p = commands.add_parser("token", help="print a new token of a team; the team is created if it does not exist")
    p.add_argument("team")
    p.add_argument("--name", default="admin")
    p.add_argument("--scope", action="append", choices=SCOPES, help="default: all")
    p.add_argument("--keep", default="", help="print this token instead if it is a valid token of the team")
    args = parser.parse_args()
    with engine().begin() as connection:
        team = ensure_team(connection, args.team)
        if args.keep and holds(connection, team, args.keep):
            print(args.keep)
        else:
            print(create_token(connection, team, args.name, args.scope or list(SCOPES)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
