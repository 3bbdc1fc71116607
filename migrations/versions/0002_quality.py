"""Verdicts on connections, subflows and fairness groups; results that are unreliable; the sender's algorithm."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"

VERDICTS = "verdict IN ('good', 'limited', 'poor')"
# Older rows were never judged. They count as good, which is what their owner took them for.
VERDICT = {"nullable": False, "server_default": "good"}
UNRELIABLE = {"nullable": False, "server_default": sa.text("'{}'")}


def upgrade() -> None:
    for table in ("connections", "subflows", "fairness_groups"):
        op.add_column(table, sa.Column("verdict", sa.String(), **VERDICT))
        op.create_check_constraint("verdict", table, VERDICTS)
    for table in ("connections", "subflows"):
        op.add_column(table, sa.Column("unreliable", postgresql.ARRAY(sa.String()), **UNRELIABLE))
    op.add_column("subflows", sa.Column("send_times", sa.String(), nullable=False, server_default="captured"))
    op.add_column("subflows", sa.Column("ecn", sa.String(), nullable=False, server_default="unknown"))
    op.add_column("subflows", sa.Column("paced", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("subflows", sa.Column("first_unseen_ns", sa.BigInteger()))
    op.add_column("subflows", sa.Column("sender_algorithm", sa.String(), nullable=False, server_default="unknown"))
    op.add_column("subflows", sa.Column("sender_match", sa.Float()))


def downgrade() -> None:
    for column in (
        "sender_match", "sender_algorithm", "first_unseen_ns", "paced", "ecn", "send_times", "unreliable", "verdict",
    ):  # fmt: skip
        op.drop_column("subflows", column)
    op.drop_column("connections", "unreliable")
    op.drop_column("connections", "verdict")
    op.drop_column("fairness_groups", "verdict")
