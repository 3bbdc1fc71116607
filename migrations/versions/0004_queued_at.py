"""The time at which a job was last queued: a lost wake-up of an old job is sent again as soon as that of a new one."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    now = sa.text("clock_timestamp()")
    op.add_column("jobs", sa.Column("queued_at", sa.DateTime(timezone=True), nullable=False, server_default=now))


def downgrade() -> None:
    op.drop_column("jobs", "queued_at")
