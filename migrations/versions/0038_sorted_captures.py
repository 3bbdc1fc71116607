"""A capture's packets and verdict as columns: lists are sorted by them.

PostgreSQL writes all captures anew.
"""

from alembic import op

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    op.execute(
        """
        ALTER TABLE captures
            ADD COLUMN packets BIGINT GENERATED ALWAYS AS ((summary ->> 'packets')::bigint) STORED,
            ADD COLUMN verdict_rank INTEGER GENERATED ALWAYS AS
                (array_position(ARRAY['good', 'limited', 'poor'], summary #>> '{quality,verdict}')) STORED
        """
    )


def downgrade() -> None:
    op.execute("ALTER TABLE captures DROP COLUMN packets, DROP COLUMN verdict_rank")
