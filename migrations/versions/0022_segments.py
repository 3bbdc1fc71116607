"""The segments of a connection, which a job reads from the capture when a team asks for them."""

from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    op.execute(
        """
        ALTER TYPE job_kind ADD VALUE 'segments';
        CREATE TABLE segment_series (
            id UUID NOT NULL,
            capture_id UUID NOT NULL,
            connection_id UUID NOT NULL,
            connection_number INTEGER NOT NULL,
            state state DEFAULT 'queued' NOT NULL,
            error VARCHAR,
            created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
            object_key VARCHAR,
            CONSTRAINT pk_segment_series PRIMARY KEY (id),
            CONSTRAINT fk_segment_series_capture_id FOREIGN KEY (capture_id)
                REFERENCES captures (id) ON DELETE CASCADE,
            CONSTRAINT uq_segment_series_connection_id UNIQUE (connection_id),
            CONSTRAINT ck_segment_series_done CHECK ((object_key IS NOT NULL) = (state = 'done'))
        );
        CREATE INDEX ix_segment_series_capture_id ON segment_series (capture_id);
        ALTER TABLE jobs ADD COLUMN segments_id UUID,
            ADD CONSTRAINT fk_jobs_segments_id FOREIGN KEY (segments_id)
                REFERENCES segment_series (id) ON DELETE CASCADE,
            ADD CONSTRAINT ck_jobs_of_segments CHECK ((segments_id IS NULL) = (kind::text <> 'segments'));
        CREATE INDEX ix_jobs_segments_id ON jobs (segments_id) WHERE segments_id IS NOT NULL;
        """
    )


def downgrade() -> None:
    # PostgreSQL cannot remove a value from an enumeration: a new enumeration replaces it.
    op.execute(
        """
        DELETE FROM jobs WHERE kind = 'segments';
        ALTER TABLE jobs DROP COLUMN segments_id;
        DROP TABLE segment_series;
        ALTER TABLE jobs DROP CONSTRAINT ck_jobs_of, DROP CONSTRAINT ck_jobs_of_whatif, DROP CONSTRAINT ck_jobs_of_fit,
            DROP CONSTRAINT ck_jobs_part;
        ALTER TYPE job_kind RENAME TO job_kind_with_segments;
        CREATE TYPE job_kind AS ENUM ('analyze', 'replay', 'check', 'whatif', 'fit');
        ALTER TABLE jobs ALTER COLUMN kind TYPE job_kind USING kind::text::job_kind;
        DROP TYPE job_kind_with_segments;
        ALTER TABLE jobs ADD CONSTRAINT ck_jobs_of CHECK (
            (capture_id IS NULL) = (kind::text = 'check') AND (check_id IS NULL) = (kind::text <> 'check')
        ), ADD CONSTRAINT ck_jobs_of_whatif CHECK ((whatif_id IS NULL) = (kind::text <> 'whatif')),
            ADD CONSTRAINT ck_jobs_of_fit CHECK ((fit_id IS NULL) = (kind::text <> 'fit')),
            ADD CONSTRAINT ck_jobs_part CHECK (
                num_nonnulls(batch, first_run, runs) IN (0, 3) AND (batch IS NULL OR kind::text IN ('fit', 'whatif'))
            );
        """
    )
