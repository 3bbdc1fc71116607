"""A job that pauses before another attempt is queued and has `not_before`, instead of a lease that no worker holds.

Besides, the check constraints of `jobs` and `model_checks` are those that store/models.py defines.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

PAUSES = "state = 'running' AND stage = 'waiting to try again'"
SUBJECTS = (
    ("captures", "capture_id", "analyze"),
    ("replays", "replay_id", "replay"),
    ("model_checks", "check_id", "check"),
)
DONE_OF_0005 = "ck_model_checks_ck_model_checks_done"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("not_before", sa.DateTime(timezone=True)))
    for table, column, kind in SUBJECTS:
        op.execute(
            f"UPDATE {table} SET state = 'queued' WHERE state = 'running' AND id IN"
            f" (SELECT {column} FROM jobs WHERE kind::text = '{kind}' AND {PAUSES})"
        )
    op.execute(f"UPDATE jobs SET state = 'queued', not_before = lease_until, lease_until = NULL WHERE {PAUSES}")
    op.execute("UPDATE jobs SET lease_until = NULL WHERE state <> 'running'")
    op.drop_constraint("ck_jobs_lease", "jobs")
    op.create_check_constraint("lease", "jobs", "(state = 'running') = (lease_until IS NOT NULL)")
    op.create_check_constraint("not_before", "jobs", "state = 'queued' OR not_before IS NULL")
    op.drop_constraint("ck_jobs_subject", "jobs")
    op.create_check_constraint(
        "of", "jobs", "(capture_id IS NULL) = (kind::text = 'check') AND (check_id IS NULL) = (kind::text <> 'check')"
    )
    op.execute(f"ALTER TABLE model_checks RENAME CONSTRAINT {DONE_OF_0005} TO ck_model_checks_done")


def downgrade() -> None:
    op.execute(f"ALTER TABLE model_checks RENAME CONSTRAINT ck_model_checks_done TO {DONE_OF_0005}")
    op.drop_constraint("ck_jobs_of", "jobs")
    op.create_check_constraint("subject", "jobs", "num_nonnulls(capture_id, check_id) = 1")
    op.drop_constraint("ck_jobs_not_before", "jobs")
    op.drop_constraint("ck_jobs_lease", "jobs")
    op.create_check_constraint("lease", "jobs", "state <> 'running' OR lease_until IS NOT NULL")
    op.execute(
        "UPDATE jobs SET state = 'running', lease_until = not_before WHERE state = 'queued' AND not_before IS NOT NULL"
    )
    op.drop_column("jobs", "not_before")
