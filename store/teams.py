"""Teams and their tokens."""

import uuid
from datetime import datetime

from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from store.models import Team, Token
from store.tokens import new_token, token_hash


def ensure_team(connection: Connection, name: str) -> uuid.UUID:
    """The id of the team with this name, which is created if it does not exist."""
    connection.execute(insert(Team).values(id=uuid.uuid4(), name=name).on_conflict_do_nothing())
    return connection.execute(select(Team.id).where(Team.name == name)).scalar_one()


def create_token(
    connection: Connection,
    team_id: uuid.UUID,
    name: str,
    scopes: list[str],
    expires_at: datetime | None = None,
) -> str:
    """Creates a token and returns it. It cannot be read again, because only its hash is stored."""
    token = new_token()
    connection.execute(
        insert(Token).values(
            id=uuid.uuid4(),
            team_id=team_id,
            name=name,
            hash=token_hash(token),
            scopes=scopes,
            expires_at=expires_at,
        )
    )
    return token


def holds(connection: Connection, team_id: uuid.UUID, token: str) -> bool:
    """Is this a token of the team that has not been revoked?"""
    return (
        connection.execute(
            select(Token.id).where(
                Token.team_id == team_id, Token.hash == token_hash(token), Token.revoked_at.is_(None)
            )
        ).first()
        is not None
    )
