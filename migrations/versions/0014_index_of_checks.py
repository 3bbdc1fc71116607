"""The index of jobs by their check holds only jobs that have one: a claim read all others in it."""

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.execute(
        """
        DROP INDEX ix_jobs_check_id;
        CREATE INDEX ix_jobs_check_id ON jobs (check_id) WHERE check_id IS NOT NULL;
        """
    )


def downgrade() -> None:
    op.execute(
        """
        DROP INDEX ix_jobs_check_id;
        CREATE INDEX ix_jobs_check_id ON jobs (check_id);
        """
    )
