"""first tables"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "algorithms",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("description", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_algorithms")),
    )
    op.create_table(
        "teams",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_teams")),
        sa.UniqueConstraint("name", name=op.f("uq_teams_name")),
    )
    op.create_table(
        "captures",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("filename", sa.String(), nullable=False),
        sa.Column("tags", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("object_key", sa.String(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column(
            "state",
            sa.Enum("queued", "running", "done", "failed", name="state"),
            server_default="queued",
            nullable=False,
        ),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column("analysed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("summary", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("acks_key", sa.String(), nullable=True),
        sa.Column("marks_key", sa.String(), nullable=True),
        sa.CheckConstraint("octet_length(sha256) = 32", name=op.f("ck_captures_sha256")),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name=op.f("fk_captures_team_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_captures")),
        sa.UniqueConstraint("team_id", "sha256", name=op.f("uq_captures_team_id_sha256")),
    )
    op.create_index("ix_captures_tags", "captures", ["tags"], unique=False, postgresql_using="gin")
    op.create_index(
        "ix_captures_team_id_created_at_id",
        "captures",
        ["team_id", sa.literal_column("created_at DESC"), sa.literal_column("id DESC")],
        unique=False,
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", postgresql.ARRAY(sa.String()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name=op.f("fk_tokens_team_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_tokens_hash")),
    )
    op.create_index(op.f("ix_tokens_team_id"), "tokens", ["team_id"], unique=False)
    op.create_table(
        "connections",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("capture_id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=True),
        sa.Column("token", sa.String(), nullable=True),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("goodput_bps", sa.Double(), nullable=True),
        sa.Column("completion_s", sa.Double(), nullable=True),
        sa.Column("retransmitted_packets", sa.BigInteger(), nullable=False),
        sa.Column("first_ns", sa.BigInteger(), nullable=False),
        sa.Column("last_ns", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("quality", postgresql.ARRAY(sa.String()), nullable=False),
        sa.Column("details", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.CheckConstraint("kind IN ('tcp', 'mptcp')", name=op.f("ck_connections_kind")),
        sa.ForeignKeyConstraint(
            ["capture_id"], ["captures.id"], name=op.f("fk_connections_capture_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["team_id"], ["teams.id"], name=op.f("fk_connections_team_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_connections")),
        sa.UniqueConstraint("capture_id", "number", name=op.f("uq_connections_capture_id_number")),
    )
    op.create_index("ix_connections_team_id", "connections", ["team_id"], unique=False)
    op.create_table(
        "fairness_groups",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("capture_id", sa.Uuid(), nullable=False),
        sa.Column("bottleneck", sa.String(), nullable=False),
        sa.Column("members", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("jain", sa.Double(), nullable=False),
        sa.Column("mptcp_to_tcp_ratio", sa.Double(), nullable=True),
        sa.Column("declared", sa.Boolean(), nullable=False),
        sa.CheckConstraint("jain >= 0 AND jain <= 1.000001", name=op.f("ck_fairness_groups_jain")),
        sa.ForeignKeyConstraint(
            ["capture_id"], ["captures.id"], name=op.f("fk_fairness_groups_capture_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_fairness_groups")),
        sa.UniqueConstraint("capture_id", "bottleneck", name=op.f("uq_fairness_groups_capture_id_bottleneck")),
    )
    op.create_table(
        "replays",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("connection_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("algorithm", sa.String(), nullable=False),
        sa.Column("options", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column(
            "state",
            sa.Enum("queued", "running", "done", "failed", name="state"),
            server_default="queued",
            nullable=False,
        ),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("acks_key", sa.String(), nullable=True),
        sa.Column("windows", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.ForeignKeyConstraint(
            ["connection_id"], ["connections.id"], name=op.f("fk_replays_connection_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_replays")),
        sa.UniqueConstraint("connection_id", "label", name=op.f("uq_replays_connection_id_label")),
    )
    op.create_table(
        "subflows",
        sa.Column("connection_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("src", postgresql.INET(), nullable=False),
        sa.Column("sport", sa.BigInteger(), nullable=False),
        sa.Column("dst", postgresql.INET(), nullable=False),
        sa.Column("dport", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("packets", sa.BigInteger(), nullable=False),
        sa.Column("retransmitted_packets", sa.BigInteger(), nullable=False),
        sa.Column("retransmitted_bytes", sa.BigInteger(), nullable=False),
        sa.Column("spurious_retransmissions", sa.BigInteger(), nullable=False),
        sa.Column("rtt_min_us", sa.BigInteger(), nullable=True),
        sa.Column("rtt_median_us", sa.BigInteger(), nullable=True),
        sa.Column("rtt_p95_us", sa.BigInteger(), nullable=True),
        sa.Column("goodput_bps", sa.Double(), nullable=True),
        sa.Column("duration_s", sa.Double(), nullable=False),
        sa.Column("ece_acks", sa.BigInteger(), nullable=False),
        sa.Column("ce_packets", sa.BigInteger(), nullable=False),
        sa.Column("fast_retransmits", sa.BigInteger(), nullable=False),
        sa.Column("timeouts", sa.BigInteger(), nullable=False),
        sa.Column("vantage", sa.String(), nullable=False),
        sa.Column("interface", sa.String(), nullable=False),
        sa.Column("quality", postgresql.ARRAY(sa.String()), nullable=False),
        sa.ForeignKeyConstraint(
            ["connection_id"], ["connections.id"], name=op.f("fk_subflows_connection_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("connection_id", "number", name=op.f("pk_subflows")),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Enum("analyze", "replay", name="job_kind"), nullable=False),
        sa.Column("capture_id", sa.Uuid(), nullable=False),
        sa.Column("replay_id", sa.Uuid(), nullable=True),
        sa.Column(
            "state",
            sa.Enum("queued", "running", "done", "failed", name="state"),
            server_default="queued",
            nullable=False,
        ),
        sa.Column("stage", sa.String(), server_default="queued", nullable=False),
        sa.Column("progress", sa.Double(), server_default="0", nullable=False),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column("attempts", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("fence", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("state <> 'running' OR lease_until IS NOT NULL", name=op.f("ck_jobs_lease")),
        sa.CheckConstraint("progress >= 0 AND progress <= 1", name=op.f("ck_jobs_progress")),
        sa.ForeignKeyConstraint(["capture_id"], ["captures.id"], name=op.f("fk_jobs_capture_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["replay_id"], ["replays.id"], name=op.f("fk_jobs_replay_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index("ix_jobs_capture_id", "jobs", ["capture_id"], unique=False)
    op.create_index(
        "ix_jobs_waiting",
        "jobs",
        ["state", "lease_until"],
        unique=False,
        postgresql_where=sa.text("state IN ('queued', 'running')"),
    )


def downgrade() -> None:
    op.drop_index("ix_jobs_waiting", table_name="jobs", postgresql_where=sa.text("state IN ('queued', 'running')"))
    op.drop_index("ix_jobs_capture_id", table_name="jobs")
    op.drop_table("jobs")
    op.drop_table("subflows")
    op.drop_table("replays")
    op.drop_table("fairness_groups")
    op.drop_index("ix_connections_team_id", table_name="connections")
    op.drop_table("connections")
    op.drop_index(op.f("ix_tokens_team_id"), table_name="tokens")
    op.drop_table("tokens")
    op.drop_index("ix_captures_team_id_created_at_id", table_name="captures")
    op.drop_index("ix_captures_tags", table_name="captures", postgresql_using="gin")
    op.drop_table("captures")
    op.drop_table("teams")
    op.drop_table("algorithms")
    op.execute("DROP TYPE job_kind")
    op.execute("DROP TYPE state")
