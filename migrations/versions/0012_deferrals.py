"""Outages of dependencies are no attempts of a job: it counts its deferrals, and outages that began while it ran."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    for name in ("deferrals", "outages"):
        op.add_column("jobs", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("jobs", sa.Column("deferred_since", sa.DateTime(timezone=True)))
    op.create_index("ix_jobs_alone", "jobs", ["state"], postgresql_where=sa.text("outages >= 2"))


def downgrade() -> None:
    op.drop_index("ix_jobs_alone", "jobs")
    for name in ("deferred_since", "outages", "deferrals"):
        op.drop_column("jobs", name)
