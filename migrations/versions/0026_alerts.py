"""Alerts of teams, the webhooks that are told, and the messages for them."""

from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE webhooks (
            id UUID NOT NULL,
            team_id UUID NOT NULL,
            name VARCHAR NOT NULL,
            url VARCHAR NOT NULL,
            secret BYTEA NOT NULL,
            old_secret BYTEA,
            old_secret_until TIMESTAMP WITH TIME ZONE,
            created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
            lease_until TIMESTAMP WITH TIME ZONE,
            fence BIGINT DEFAULT 0 NOT NULL,
            CONSTRAINT pk_webhooks PRIMARY KEY (id),
            CONSTRAINT fk_webhooks_team_id FOREIGN KEY (team_id) REFERENCES teams (id) ON DELETE CASCADE,
            CONSTRAINT ck_webhooks_old_secret CHECK ((old_secret IS NULL) = (old_secret_until IS NULL))
        );
        CREATE INDEX ix_webhooks_team_id ON webhooks (team_id);

        CREATE TABLE deliveries (
            id UUID NOT NULL,
            webhook_id UUID NOT NULL,
            alert_id UUID,
            type VARCHAR NOT NULL,
            body VARCHAR NOT NULL,
            created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
            due_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
            attempts INTEGER DEFAULT 0 NOT NULL,
            state VARCHAR DEFAULT 'waiting' NOT NULL,
            status INTEGER,
            error VARCHAR,
            finished_at TIMESTAMP WITH TIME ZONE,
            CONSTRAINT pk_deliveries PRIMARY KEY (id),
            CONSTRAINT fk_deliveries_webhook_id FOREIGN KEY (webhook_id) REFERENCES webhooks (id) ON DELETE CASCADE,
            CONSTRAINT ck_deliveries_state CHECK (state IN ('waiting', 'delivered', 'given_up')),
            CONSTRAINT ck_deliveries_finished CHECK ((state = 'waiting') = (finished_at IS NULL))
        );
        CREATE INDEX ix_deliveries_latest ON deliveries (webhook_id, created_at DESC, id DESC);
        CREATE INDEX ix_deliveries_of_alert ON deliveries (alert_id, created_at DESC);
        CREATE INDEX ix_deliveries_due ON deliveries (due_at) WHERE state = 'waiting';
        CREATE INDEX ix_deliveries_ended ON deliveries (finished_at) WHERE state <> 'waiting';

        CREATE TABLE alerts (
            id UUID NOT NULL,
            team_id UUID NOT NULL,
            webhook_id UUID,
            name VARCHAR NOT NULL,
            measure VARCHAR NOT NULL,
            statistic VARCHAR NOT NULL,
            filters VARCHAR NOT NULL,
            clock VARCHAR NOT NULL,
            window_s INTEGER NOT NULL,
            condition VARCHAR NOT NULL,
            threshold FLOAT NOT NULL,
            least INTEGER NOT NULL,
            in_a_row INTEGER NOT NULL,
            interval_s INTEGER NOT NULL,
            enabled BOOLEAN NOT NULL,
            created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
            state VARCHAR NOT NULL,
            since TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
            firing_since TIMESTAMP WITH TIME ZONE,
            streak INTEGER DEFAULT 0 NOT NULL,
            value FLOAT,
            before FLOAT,
            connections INTEGER,
            evaluated_at TIMESTAMP WITH TIME ZONE,
            error VARCHAR,
            due_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
            lease_until TIMESTAMP WITH TIME ZONE,
            fence BIGINT DEFAULT 0 NOT NULL,
            CONSTRAINT pk_alerts PRIMARY KEY (id),
            CONSTRAINT fk_alerts_team_id FOREIGN KEY (team_id) REFERENCES teams (id) ON DELETE CASCADE,
            CONSTRAINT fk_alerts_webhook_id FOREIGN KEY (webhook_id) REFERENCES webhooks (id) ON DELETE SET NULL,
            CONSTRAINT ck_alerts_statistic CHECK (statistic IN (
                'count', 'mean', 'min', 'max', 'p5', 'p25', 'p50', 'p75', 'p95', 'p99', 'unreliable_share')),
            CONSTRAINT ck_alerts_condition CHECK (condition IN ('above', 'below', 'rises', 'falls', 'changes')),
            CONSTRAINT ck_alerts_clock CHECK (clock IN ('captured', 'uploaded')),
            CONSTRAINT ck_alerts_state CHECK (
                state IN ('new', 'ok', 'pending', 'firing', 'too_few', 'error', 'off')),
            CONSTRAINT ck_alerts_positive CHECK (
                window_s > 0 AND interval_s > 0 AND least > 0 AND in_a_row > 0)
        );
        CREATE INDEX ix_alerts_of_team ON alerts (team_id, created_at, id);
        CREATE INDEX ix_alerts_webhook_id ON alerts (webhook_id);
        CREATE INDEX ix_alerts_due ON alerts (due_at) WHERE enabled;
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE alerts; DROP TABLE deliveries; DROP TABLE webhooks")
