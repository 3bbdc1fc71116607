"""The result of the monitor for each connection; null: analysed before the monitor existed."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("connections", sa.Column("conformance", postgresql.JSONB()))


def downgrade() -> None:
    op.drop_column("connections", "conformance")
