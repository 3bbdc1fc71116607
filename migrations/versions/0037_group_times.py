"""When the first member of a fairness group began, beside the group: its values of a period are found without the facts
of its members."""

from alembic import op

revision = "0037"
down_revision = "0036"

BACKFILL = """
UPDATE fairness_groups g
SET first_ns = (
    SELECT min(f.first_ns) FROM connection_facts f
    WHERE f.attempt_id = g.attempt_id
        AND f.number IN (SELECT jsonb_array_elements_text(g.members->'connections')::integer)
)
"""


def upgrade() -> None:
    op.execute("ALTER TABLE fairness_groups ADD COLUMN first_ns BIGINT")
    op.execute(BACKFILL)
    op.execute("CREATE INDEX ix_fairness_groups_first_ns ON fairness_groups (first_ns)")


def downgrade() -> None:
    op.execute("ALTER TABLE fairness_groups DROP COLUMN first_ns")
