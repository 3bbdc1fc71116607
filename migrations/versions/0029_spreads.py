"""What tells, for each day of a team, how much captures differ. All days are counted anew."""

from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE day_spreads (
            team_id UUID NOT NULL,
            day INTEGER NOT NULL,
            place INTEGER NOT NULL,
            measure VARCHAR NOT NULL,
            dimension VARCHAR NOT NULL,
            value VARCHAR,
            connections DOUBLE PRECISION NOT NULL,
            captures DOUBLE PRECISION NOT NULL,
            total DOUBLE PRECISION NOT NULL,
            squares DOUBLE PRECISION NOT NULL,
            products DOUBLE PRECISION NOT NULL,
            connections_squared DOUBLE PRECISION NOT NULL,
            CONSTRAINT pk_day_spreads PRIMARY KEY (team_id, day, place)
        );
        CREATE INDEX ix_attempts_of_several_days ON attempts (id) WHERE cardinality(days) IS DISTINCT FROM 1;
        INSERT INTO stale_days (team_id, day) SELECT DISTINCT team_id, day FROM day_histograms;
        """
    )


def downgrade() -> None:
    op.execute("DROP INDEX ix_attempts_of_several_days; DROP TABLE day_spreads")
