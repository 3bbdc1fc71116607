"""How many connections of each day of a team have each value of some dimensions. All days are counted anew."""

from alembic import op

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE day_counts (
            team_id UUID NOT NULL,
            day INTEGER NOT NULL,
            dimension VARCHAR NOT NULL,
            values VARCHAR[] NOT NULL,
            counts INTEGER[] NOT NULL,
            CONSTRAINT pk_day_counts PRIMARY KEY (team_id, day, dimension)
        );
        INSERT INTO stale_days (team_id, day)
        SELECT DISTINCT team_id, day FROM day_histograms EXCEPT SELECT team_id, day FROM stale_days;
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE day_counts")
