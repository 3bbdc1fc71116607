"""The addresses and ports of all subflows beside the facts of their connection, so that a search by them reads one
table."""

from alembic import op

revision = "0034"
down_revision = "0033"

BACKFILL = """
UPDATE connection_facts f
SET addresses = ARRAY(
        SELECT DISTINCT unnest(ARRAY[s.src, s.dst]) AS address FROM subflows s
        WHERE s.attempt_id = f.attempt_id AND s.connection_number = f.number ORDER BY address
    ), ports = ARRAY(
        SELECT DISTINCT unnest(ARRAY[s.sport, s.dport]) AS port FROM subflows s
        WHERE s.attempt_id = f.attempt_id AND s.connection_number = f.number ORDER BY port
    )
WHERE f.subflow_count > 1
"""


def upgrade() -> None:
    op.execute("ALTER TABLE connection_facts ADD COLUMN addresses INET[], ADD COLUMN ports INTEGER[]")
    op.execute(BACKFILL)


def downgrade() -> None:
    op.execute("ALTER TABLE connection_facts DROP COLUMN addresses, DROP COLUMN ports")
