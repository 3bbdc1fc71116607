"""Notes that a team pins to a time of a connection."""

from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE pinned_notes (
            id UUID NOT NULL,
            capture_id UUID NOT NULL,
            connection_id UUID NOT NULL,
            at_ns BIGINT NOT NULL,
            text VARCHAR NOT NULL,
            author VARCHAR NOT NULL,
            created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
            changed_by VARCHAR,
            changed_at TIMESTAMP WITH TIME ZONE,
            CONSTRAINT pk_pinned_notes PRIMARY KEY (id),
            CONSTRAINT fk_pinned_notes_capture_id FOREIGN KEY (capture_id) REFERENCES captures (id) ON DELETE CASCADE,
            CONSTRAINT ck_pinned_notes_changed CHECK ((changed_by IS NULL) = (changed_at IS NULL))
        );
        CREATE INDEX ix_pinned_notes_capture_id ON pinned_notes (capture_id);
        CREATE INDEX ix_pinned_notes_in_order ON pinned_notes (connection_id, at_ns, id);
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE pinned_notes")
