"""An index of the connections that are members of several fairness groups, which are few: an aggregate over groups
unnests their arrays only."""

from alembic import op

revision = "0042"
down_revision = "0041"


def upgrade() -> None:
    op.execute(
        "CREATE INDEX ix_connection_facts_of_several ON connection_facts (attempt_id) WHERE cardinality(group_ids) > 1"
    )


def downgrade() -> None:
    op.execute("DROP INDEX ix_connection_facts_of_several")
