"""What teams keep of their captures; captures are recognised by a hash with a secret of the team."""

import hashlib
import hmac

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

_BATCH = 1000


def _hash_received() -> None:
    """Until now captures were stored as they were received."""
    connection = op.get_bind()
    while rows := connection.execute(
        sa.text(
            "SELECT captures.id, sha256, secret FROM captures JOIN teams ON teams.id = team_id"
            " WHERE received IS NULL LIMIT :batch"
        ),
        {"batch": _BATCH},
    ).all():
        # As api/privacy.py does it.
        hashes = [
            {"id": row.id, "received": hmac.digest(row.secret, b"received" + row.sha256, hashlib.sha256)}
            for row in rows
        ]
        connection.execute(sa.text("UPDATE captures SET received = :received WHERE id = :id"), hashes)


def upgrade() -> None:
    # Two random UUIDs have 244 random bits.
    op.execute(
        """
        ALTER TABLE teams
            ADD COLUMN secret BYTEA DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) NOT NULL,
            ADD COLUMN payload VARCHAR DEFAULT 'cut' NOT NULL,
            ADD COLUMN addresses VARCHAR DEFAULT 'kept' NOT NULL,
            ADD CONSTRAINT ck_teams_secret CHECK (octet_length(secret) = 32),
            ADD CONSTRAINT ck_teams_payload CHECK (payload IN ('kept', 'cut')),
            ADD CONSTRAINT ck_teams_addresses
                CHECK (addresses = 'kept' OR (addresses = 'replaced' AND payload = 'cut'));
        ALTER TABLE captures
            ADD COLUMN received BYTEA,
            ADD COLUMN payload VARCHAR DEFAULT 'kept' NOT NULL,
            ADD COLUMN addresses VARCHAR DEFAULT 'kept' NOT NULL,
            ADD COLUMN not_kept VARCHAR,
            ADD CONSTRAINT ck_captures_received CHECK (octet_length(received) = 32),
            ADD CONSTRAINT ck_captures_payload CHECK (payload IN ('kept', 'cut')),
            ADD CONSTRAINT ck_captures_addresses CHECK (addresses IN ('kept', 'replaced'));
        """
    )
    _hash_received()
    op.execute(
        """
        ALTER TABLE captures
            ALTER COLUMN received SET DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()),
            ALTER COLUMN received SET NOT NULL,
            DROP CONSTRAINT uq_captures_team_id_sha256,
            ADD CONSTRAINT uq_captures_team_id_received UNIQUE (team_id, received);
        """
    )


def downgrade() -> None:
    op.execute(
        """
        ALTER TABLE captures DROP CONSTRAINT uq_captures_team_id_received;
        ALTER TABLE captures ADD CONSTRAINT uq_captures_team_id_sha256 UNIQUE (team_id, sha256),
            DROP COLUMN received, DROP COLUMN payload, DROP COLUMN addresses, DROP COLUMN not_kept;
        ALTER TABLE teams DROP COLUMN secret, DROP COLUMN payload, DROP COLUMN addresses;
        """
    )
