"""Teams and their tokens."""

import uuid
from datetime import datetime

from sqlalchemy import Connection, select, update
from sqlalchemy.dialects.postgresql import insert

from store.models import Member, Role, Team, Token
from store.tokens import SCOPES_OF, new_token, role_for, token_hash


def ensure_team(connection: Connection, name: str) -> uuid.UUID:
    """The id of the team with this name, which is created if it does not exist."""
    connection.execute(insert(Team).values(id=uuid.uuid4(), name=name).on_conflict_do_nothing())
    return connection.execute(select(Team.id).where(Team.name == name)).scalar_one()


def ensure_member(connection: Connection, team_id: uuid.UUID, name: str, role: Role) -> uuid.UUID:
    """The id of the team's member with this name, who has at least this role afterwards."""
    row = connection.execute(
        select(Member.id, Member.role)
        .where(Member.team_id == team_id, Member.name == name, Member.removed_at.is_(None))
        .with_for_update()
    ).one_or_none()
    if row is None:
        member_id = uuid.uuid4()
        connection.execute(insert(Member).values(id=member_id, team_id=team_id, name=name, role=role))
        return member_id
    if not set(SCOPES_OF[role]) <= set(SCOPES_OF[row.role]):
        connection.execute(update(Member).where(Member.id == row.id).values(role=role))
    return uuid.UUID(str(row.id))


def create_token(
    connection: Connection,
    team_id: uuid.UUID,
    name: str,
    scopes: list[str],
    expires_at: datetime | None = None,
) -> str:
    """Creates a token of the member with this name and returns it. It cannot be read again, because only its hash is
    stored."""
    token = new_token()
    member_id = ensure_member(connection, team_id, name, role_for(scopes))
    connection.execute(
        insert(Token).values(
            id=uuid.uuid4(),
            team_id=team_id,
            member_id=member_id,
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
            select(Token.id)
            .join(Member, Member.id == Token.member_id)
            .where(
                Token.team_id == team_id,
                Token.hash == token_hash(token),
                Token.revoked_at.is_(None),
                Member.removed_at.is_(None),
            )
        ).first()
        is not None
    )
