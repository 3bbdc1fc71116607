"""When a capture's first packet was captured, as a column: lists are sorted by it. A capture without packets has none.

PostgreSQL writes all captures anew.
"""

from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    op.execute(
        """
        ALTER TABLE captures ADD COLUMN first_ns BIGINT
            GENERATED ALWAYS AS
            (CASE WHEN (summary ->> 'packets')::bigint > 0 THEN (summary ->> 'first_ns')::bigint END) STORED;
        CREATE INDEX ix_captures_first_ns ON captures (team_id, first_ns, id);
        """
    )


def downgrade() -> None:
    op.execute("ALTER TABLE captures DROP COLUMN first_ns")
