"""Indexes of fairness groups: in the order in which a capture's page lists them, and of the connections that are
members of several groups, which are few: an aggregate over groups unnests their arrays only."""

from alembic import op

revision = "0042"
down_revision = "0041"


def upgrade() -> None:
    op.execute("CREATE INDEX ix_fairness_groups_in_order ON fairness_groups (attempt_id, id)")
    op.execute(
        "CREATE INDEX ix_connection_facts_of_several ON connection_facts (attempt_id) WHERE cardinality(group_ids) > 1"
    )


def downgrade() -> None:
    op.execute("DROP INDEX ix_connection_facts_of_several")
    op.execute("DROP INDEX ix_fairness_groups_in_order")
