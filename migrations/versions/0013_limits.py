"""Jobs know their team, whose turn it is; what teams send and store is counted."""

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.execute(
        """
        ALTER TABLE jobs ADD COLUMN team_id UUID;
        UPDATE jobs SET team_id = captures.team_id FROM captures WHERE captures.id = jobs.capture_id;
        UPDATE jobs SET team_id = model_checks.team_id FROM model_checks WHERE model_checks.id = jobs.check_id;
        ALTER TABLE jobs ALTER COLUMN team_id SET NOT NULL,
            ADD CONSTRAINT fk_jobs_team_id FOREIGN KEY (team_id) REFERENCES teams (id) ON DELETE CASCADE;
        CREATE INDEX ix_jobs_queue_captures ON jobs (team_id, queued_at, id)
            WHERE state = 'queued' AND check_id IS NULL;
        CREATE INDEX ix_jobs_queue_checks ON jobs (team_id, queued_at, id)
            WHERE state = 'queued' AND check_id IS NOT NULL;
        CREATE INDEX ix_captures_stored ON captures (team_id) INCLUDE (bytes);
        CREATE TABLE turns (
            team_id UUID NOT NULL,
            queue VARCHAR NOT NULL,
            served_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
            CONSTRAINT pk_turns PRIMARY KEY (team_id, queue),
            CONSTRAINT fk_turns_team_id FOREIGN KEY (team_id) REFERENCES teams (id) ON DELETE CASCADE
        );
        CREATE UNLOGGED TABLE request_rates (
            team_id UUID NOT NULL,
            due_at TIMESTAMP WITH TIME ZONE NOT NULL,
            CONSTRAINT pk_request_rates PRIMARY KEY (team_id),
            CONSTRAINT fk_request_rates_team_id FOREIGN KEY (team_id) REFERENCES teams (id) ON DELETE CASCADE
        );
        CREATE TABLE incoming (
            id UUID NOT NULL,
            team_id UUID NOT NULL,
            bytes BIGINT NOT NULL,
            alive_until TIMESTAMP WITH TIME ZONE NOT NULL,
            CONSTRAINT pk_incoming PRIMARY KEY (id),
            CONSTRAINT fk_incoming_team_id FOREIGN KEY (team_id) REFERENCES teams (id) ON DELETE CASCADE
        );
        CREATE INDEX ix_incoming_team_id ON incoming (team_id);
        """
    )


def downgrade() -> None:
    op.execute(
        """
        DROP INDEX ix_captures_stored;
        DROP TABLE incoming;
        DROP TABLE request_rates;
        DROP TABLE turns;
        ALTER TABLE jobs DROP COLUMN team_id;
        """
    )
