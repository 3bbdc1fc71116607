"""Uploads that go on after an interruption."""

from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE resumable_uploads (
            id UUID NOT NULL,
            team_id UUID NOT NULL,
            secret_hash BYTEA NOT NULL,
            folder UUID NOT NULL,
            length BIGINT NOT NULL,
            received BIGINT DEFAULT 0 NOT NULL,
            kept_bytes BIGINT DEFAULT 0 NOT NULL,
            filename VARCHAR NOT NULL,
            tags JSONB NOT NULL,
            told VARCHAR NOT NULL,
            created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
            expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
            capture_id UUID,
            was_here BOOLEAN,
            is_restored BOOLEAN,
            CONSTRAINT pk_resumable_uploads PRIMARY KEY (id),
            CONSTRAINT uq_resumable_uploads_secret_hash UNIQUE (secret_hash),
            CONSTRAINT fk_resumable_uploads_team_id FOREIGN KEY (team_id) REFERENCES teams (id) ON DELETE CASCADE,
            CONSTRAINT ck_resumable_uploads_received CHECK (
                length > 0 AND received BETWEEN 0 AND length AND kept_bytes >= received
                AND (received = length) = (capture_id IS NOT NULL)
            )
        );
        CREATE INDEX ix_resumable_uploads_team_id ON resumable_uploads (team_id);
        CREATE INDEX ix_resumable_uploads_expires_at ON resumable_uploads (expires_at);
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE resumable_uploads")
