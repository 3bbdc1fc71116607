"""A capture's site in a column: an aggregate by site read it from the tags for each connection."""

from alembic import op

revision = "0041"
down_revision = "0040"


def upgrade() -> None:
    op.execute("ALTER TABLE captures ADD COLUMN site TEXT GENERATED ALWAYS AS (tags ->> 'site') STORED")


def downgrade() -> None:
    op.execute("ALTER TABLE captures DROP COLUMN site")
