"""How long teams keep captures, series and metrics, and what has been deleted for that."""

from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    op.execute(
        """
        ALTER TABLE teams
            ADD COLUMN raw_days INTEGER,
            ADD COLUMN series_days INTEGER,
            ADD COLUMN metrics_days INTEGER,
            ADD CONSTRAINT ck_teams_raw_days CHECK (raw_days BETWEEN 1 AND 36500),
            ADD CONSTRAINT ck_teams_series_days CHECK (series_days BETWEEN 1 AND 36500),
            ADD CONSTRAINT ck_teams_metrics_days CHECK (metrics_days BETWEEN 1 AND 36500),
            ADD CONSTRAINT ck_teams_metrics_last CHECK (raw_days <= metrics_days AND series_days <= metrics_days);
        ALTER TABLE captures
            ADD COLUMN uploaded_at TIMESTAMP WITH TIME ZONE,
            ADD COLUMN raw_deleted_at TIMESTAMP WITH TIME ZONE,
            ADD COLUMN series_deleted_at TIMESTAMP WITH TIME ZONE,
            ADD COLUMN series_bytes BIGINT;
        UPDATE captures SET uploaded_at = created_at;
        ALTER TABLE captures
            ALTER COLUMN uploaded_at SET DEFAULT clock_timestamp(),
            ALTER COLUMN uploaded_at SET NOT NULL;
        DROP INDEX ix_captures_stored;
        CREATE INDEX ix_captures_stored ON captures (team_id) INCLUDE (bytes, raw_deleted_at);
        CREATE INDEX ix_captures_object_key ON captures USING hash (object_key);
        ALTER TABLE replays ADD COLUMN series_bytes BIGINT;
        ALTER TABLE segment_series ADD COLUMN series_bytes BIGINT;
        CREATE TABLE retention_counts (
            kind VARCHAR NOT NULL,
            captures BIGINT NOT NULL,
            bytes BIGINT NOT NULL,
            CONSTRAINT pk_retention_counts PRIMARY KEY (kind)
        );
        """
    )


def downgrade() -> None:
    # Without a copy there is nothing that an earlier version could read.
    op.execute(
        """
        UPDATE captures SET not_kept = 'the stored copy was deleted by retention'
            WHERE raw_deleted_at IS NOT NULL AND not_kept IS NULL;
        DROP TABLE retention_counts;
        ALTER TABLE segment_series DROP COLUMN series_bytes;
        ALTER TABLE replays DROP COLUMN series_bytes;
        DROP INDEX ix_captures_object_key;
        DROP INDEX ix_captures_stored;
        CREATE INDEX ix_captures_stored ON captures (team_id) INCLUDE (bytes);
        ALTER TABLE captures DROP COLUMN uploaded_at, DROP COLUMN raw_deleted_at, DROP COLUMN series_deleted_at,
            DROP COLUMN series_bytes;
        ALTER TABLE teams DROP COLUMN raw_days, DROP COLUMN series_days, DROP COLUMN metrics_days;
        """
    )
