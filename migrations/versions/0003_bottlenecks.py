"""How it was found that the members of a fairness group share a bottleneck."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    # Older groups were flows of one interface, or declared.
    op.add_column("fairness_groups", sa.Column("method", sa.String(), nullable=False, server_default="interface"))
    op.execute("UPDATE fairness_groups SET method = 'declared' WHERE declared")
    op.alter_column("fairness_groups", "method", server_default=None)


def downgrade() -> None:
    op.drop_column("fairness_groups", "method")
