"""A team may forbid that members download stored captures."""

from alembic import op

revision = "0039"
down_revision = "0038"


def upgrade() -> None:
    op.execute(
        """
        ALTER TABLE teams
            ADD COLUMN downloads VARCHAR DEFAULT 'allowed' NOT NULL,
            ADD CONSTRAINT ck_teams_downloads CHECK (downloads IN ('allowed', 'forbidden'))
        """
    )


def downgrade() -> None:
    op.execute("ALTER TABLE teams DROP COLUMN downloads")
