"""Subflows have the algorithms that their sender may have run."""

from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.execute(
        """
        ALTER TABLE subflows ADD COLUMN sender_candidates VARCHAR[] DEFAULT '{}' NOT NULL;
        UPDATE subflows SET sender_candidates = ARRAY[sender_algorithm] WHERE sender_algorithm <> 'unknown';
        ALTER TABLE subflows ALTER COLUMN sender_candidates DROP DEFAULT;
        """
    )


def downgrade() -> None:
    op.execute("ALTER TABLE subflows DROP COLUMN sender_candidates")
