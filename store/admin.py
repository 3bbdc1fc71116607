"""Teams and tokens from the shell: `python -m store.admin token TEAM [--scope read ...] [--keep FILE]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from store.database import engine
from store.teams import create_token, ensure_team, holds
from store.tokens import SCOPES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    p = commands.add_parser("token", help="print a new token of a team; the team is created if it does not exist")
    p.add_argument("team")
    p.add_argument("--name", default="admin", help="of the token and of its member, who is added if there is none")
    p.add_argument("--scope", action="append", choices=SCOPES, help="default: all")
    p.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="print the token in this file instead if it is a valid one of the team",
    )
    args = parser.parse_args()
    # Not an argument: other users can read a command line.
    kept = args.keep.read_text().strip() if args.keep and args.keep.exists() else ""
    with engine().begin() as connection:
        team = ensure_team(connection, args.team)
        if kept and holds(connection, team, kept):
            print(kept)
        else:
            print(create_token(connection, team, args.name, args.scope or list(SCOPES)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
