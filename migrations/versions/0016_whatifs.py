"""What-ifs of connections, and the jobs that answer them."""

from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.execute(
        """
        ALTER TYPE job_kind ADD VALUE 'whatif';
        CREATE TABLE whatifs (
            id UUID NOT NULL,
            capture_id UUID NOT NULL,
            connection_id UUID NOT NULL,
            connection_number INTEGER NOT NULL,
            label VARCHAR NOT NULL,
            algorithm VARCHAR NOT NULL,
            options JSONB DEFAULT '{}' NOT NULL,
            everyone BOOLEAN NOT NULL,
            repeat INTEGER NOT NULL,
            settings JSONB DEFAULT '{}' NOT NULL,
            state state DEFAULT 'queued' NOT NULL,
            error VARCHAR,
            created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
            finished_at TIMESTAMP WITH TIME ZONE,
            result JSONB,
            CONSTRAINT pk_whatifs PRIMARY KEY (id),
            CONSTRAINT fk_whatifs_capture_id FOREIGN KEY (capture_id) REFERENCES captures (id) ON DELETE CASCADE,
            CONSTRAINT uq_whatifs_connection_id_label_everyone_repeat_settings
                UNIQUE (connection_id, label, everyone, repeat, settings),
            CONSTRAINT ck_whatifs_done CHECK ((result IS NOT NULL) = (state = 'done'))
        );
        CREATE INDEX ix_whatifs_capture_id ON whatifs (capture_id);
        CREATE INDEX ix_whatifs_newest ON whatifs (connection_id, created_at DESC, id DESC);
        ALTER TABLE jobs ADD COLUMN whatif_id UUID,
            ADD CONSTRAINT fk_jobs_whatif_id FOREIGN KEY (whatif_id) REFERENCES whatifs (id) ON DELETE CASCADE,
            ADD CONSTRAINT ck_jobs_of_whatif CHECK ((whatif_id IS NULL) = (kind::text <> 'whatif'));
        CREATE INDEX ix_jobs_whatif_id ON jobs (whatif_id) WHERE whatif_id IS NOT NULL;
        """
    )


def downgrade() -> None:
    # PostgreSQL cannot remove a value from an enumeration: a new enumeration replaces it.
    op.execute(
        """
        DELETE FROM jobs WHERE kind = 'whatif';
        ALTER TABLE jobs DROP COLUMN whatif_id;
        DROP TABLE whatifs;
        ALTER TABLE jobs DROP CONSTRAINT ck_jobs_of;
        ALTER TYPE job_kind RENAME TO job_kind_with_whatifs;
        CREATE TYPE job_kind AS ENUM ('analyze', 'replay', 'check');
        ALTER TABLE jobs ALTER COLUMN kind TYPE job_kind USING kind::text::job_kind;
        DROP TYPE job_kind_with_whatifs;
        ALTER TABLE jobs ADD CONSTRAINT ck_jobs_of CHECK (
            (capture_id IS NULL) = (kind::text = 'check') AND (check_id IS NULL) = (kind::text <> 'check')
        );
        """
    )
