"""Model checks, the specifications that can be checked, and jobs of checks."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "specs",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("description", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_specs"),
    )
    state = sa.Enum("queued", "running", "done", "failed", "cancelled", name="check_state")
    op.create_table(
        "model_checks",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("spec", sa.String(), nullable=False),
        sa.Column("configuration", sa.String(), nullable=False),
        sa.Column("constants", postgresql.JSONB(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("seconds_max", sa.Float(), nullable=False),
        sa.Column("state", state, server_default="queued", nullable=False),
        sa.Column("error", sa.String()),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.Column("verdict", sa.String()),
        sa.Column("violated", sa.String()),
        sa.Column("as_pinned", sa.Boolean()),
        sa.Column("generated", sa.BigInteger()),
        sa.Column("distinct", sa.BigInteger()),
        sa.Column("queued", sa.BigInteger()),
        sa.Column("depth", sa.BigInteger()),
        sa.Column("seconds", sa.Float()),
        sa.Column("coverage", postgresql.JSONB()),
        sa.Column("counterexample", postgresql.JSONB()),
        sa.Column("counterexample_states", sa.BigInteger()),
        sa.CheckConstraint("verdict IN ('holds', 'violated')", name="ck_model_checks_verdict"),
        sa.CheckConstraint("(verdict IS NOT NULL) = (state = 'done')", name="ck_model_checks_done"),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name="fk_model_checks_team_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_model_checks"),
        sa.UniqueConstraint("team_id", "spec", "configuration", "constants", "digest", name="uq_model_checks_asked"),
    )
    op.create_index(
        "ix_model_checks_team_id_created_at_id",
        "model_checks",
        ["team_id", sa.text("created_at DESC"), sa.text("id DESC")],
    )
    op.execute("ALTER TYPE job_kind ADD VALUE 'check'")
    op.alter_column("jobs", "capture_id", nullable=True)
    op.add_column("jobs", sa.Column("check_id", sa.Uuid()))
    op.create_foreign_key("fk_jobs_check_id", "jobs", "model_checks", ["check_id"], ["id"], ondelete="CASCADE")
    op.create_index("ix_jobs_check_id", "jobs", ["check_id"])
    op.create_check_constraint("subject", "jobs", "num_nonnulls(capture_id, check_id) = 1")


def downgrade() -> None:
    op.execute("DELETE FROM jobs WHERE kind = 'check'")
    op.drop_constraint("ck_jobs_subject", "jobs")
    op.drop_index("ix_jobs_check_id", "jobs")
    op.drop_column("jobs", "check_id")
    op.alter_column("jobs", "capture_id", nullable=False)
    # PostgreSQL cannot remove a value from an enumeration: a new enumeration replaces it.
    op.execute("ALTER TYPE job_kind RENAME TO job_kind_with_checks")
    op.execute("CREATE TYPE job_kind AS ENUM ('analyze', 'replay')")
    op.execute("ALTER TABLE jobs ALTER COLUMN kind TYPE job_kind USING kind::text::job_kind")
    op.execute("DROP TYPE job_kind_with_checks")
    op.drop_table("model_checks")
    op.execute("DROP TYPE check_state")
    op.drop_table("specs")
