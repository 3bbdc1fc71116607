"""A capture's site in a column: read from the tags for each connection, it took an aggregate by site as long as all
else that the aggregate does."""

from alembic import op

revision = "0041"
down_revision = "0040"


def upgrade() -> None:
    op.execute("ALTER TABLE captures ADD COLUMN site TEXT GENERATED ALWAYS AS (tags ->> 'site') STORED")


def downgrade() -> None:
    op.execute("ALTER TABLE captures DROP COLUMN site")
