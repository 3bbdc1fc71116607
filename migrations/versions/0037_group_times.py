"""When the first member of a fairness group began, beside the group: its values of a period are found without the facts
of its members."""

from alembic import op

revision = "0037"
down_revision = "0036"

BACKFILL = """
UPDATE fairness_groups g
SET first_ns = began.first_ns
FROM (
    SELECT o.attempt_id, o.bottleneck, min(f.first_ns) AS first_ns
    FROM fairness_groups o
    CROSS JOIN LATERAL jsonb_array_elements_text(o.members->'connections') AS member (number)
    JOIN connection_facts f ON f.attempt_id = o.attempt_id AND f.number = member.number::integer
    GROUP BY o.attempt_id, o.bottleneck
) began
WHERE g.attempt_id = began.attempt_id AND g.bottleneck = began.bottleneck
"""


def upgrade() -> None:
    op.execute("ALTER TABLE fairness_groups ADD COLUMN first_ns BIGINT")
    op.execute(BACKFILL)
    op.execute("CREATE INDEX ix_fairness_groups_first_ns ON fairness_groups (first_ns)")


def downgrade() -> None:
    op.execute("ALTER TABLE fairness_groups DROP COLUMN first_ns")
