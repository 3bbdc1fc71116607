"""Members whose role follows from an OpenID Connect provider's claims, and sessions that it confirms again."""

from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    op.execute(
        """
        ALTER TABLE members
            ADD COLUMN issuer VARCHAR,
            ADD COLUMN subject VARCHAR,
            ADD COLUMN confirmed_at TIMESTAMP WITH TIME ZONE,
            ADD CONSTRAINT ck_members_identity CHECK (num_nulls(issuer, subject, confirmed_at) IN (0, 3));
        CREATE UNIQUE INDEX ix_members_identity ON members (issuer, subject, team_id)
            WHERE removed_at IS NULL AND subject IS NOT NULL;
        ALTER TABLE sessions
            ADD COLUMN claims_until TIMESTAMP WITH TIME ZONE,
            ADD COLUMN renew_at TIMESTAMP WITH TIME ZONE,
            ADD COLUMN renewing_until TIMESTAMP WITH TIME ZONE,
            ADD COLUMN sealed VARCHAR,
            ADD CONSTRAINT ck_sessions_claims CHECK (num_nulls(claims_until, renew_at, sealed) IN (0, 3));
        """
    )


def downgrade() -> None:
    op.execute(
        """
        -- Without these columns they would be members like others, who keep their role for ever.
        DELETE FROM sessions WHERE claims_until IS NOT NULL;
        UPDATE tokens SET revoked_at = clock_timestamp() FROM members
            WHERE members.id = tokens.member_id AND members.subject IS NOT NULL AND tokens.revoked_at IS NULL;
        UPDATE members SET removed_at = clock_timestamp() WHERE subject IS NOT NULL AND removed_at IS NULL;
        DROP INDEX ix_members_identity;
        ALTER TABLE members DROP COLUMN issuer, DROP COLUMN subject, DROP COLUMN confirmed_at;
        ALTER TABLE sessions DROP COLUMN claims_until, DROP COLUMN renew_at, DROP COLUMN renewing_until,
            DROP COLUMN sealed;
        """
    )
