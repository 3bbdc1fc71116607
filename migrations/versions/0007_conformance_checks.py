"""Model checks of a connection's steps: the request, the progress of TLC, and the first step that does not conform."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"

_VERDICT_OF_0005 = "ck_model_checks_ck_model_checks_verdict"
COLUMNS = (
    sa.Column("algorithm", sa.String()),
    sa.Column("capture_id", sa.Uuid()),
    sa.Column("capture_sha256", sa.LargeBinary()),
    sa.Column("capture_filename", sa.String()),
    sa.Column("connection_id", sa.Uuid()),
    sa.Column("connection_number", sa.BigInteger()),
    sa.Column("events", sa.BigInteger()),
    sa.Column("followed", sa.BigInteger()),
    sa.Column("pieces", sa.BigInteger()),
    sa.Column("pieces_followed", sa.BigInteger()),
    sa.Column("first_violation", postgresql.JSONB()),
)


def upgrade() -> None:
    for column in COLUMNS:
        op.add_column("model_checks", column.copy())
    op.alter_column("model_checks", "configuration", nullable=True)
    op.create_foreign_key(
        "fk_model_checks_capture_id", "model_checks", "captures", ["capture_id"], ["id"], ondelete="SET NULL"
    )
    op.create_index("ix_model_checks_capture_id", "model_checks", ["capture_id"])
    op.create_index("ix_model_checks_connection_id", "model_checks", ["connection_id"])
    op.create_unique_constraint(
        "uq_model_checks_conformance",
        "model_checks",
        ["team_id", "capture_sha256", "connection_number", "algorithm", "digest"],
    )
    op.drop_constraint(_VERDICT_OF_0005, "model_checks")
    op.create_check_constraint(
        "verdict",
        "model_checks",
        "verdict IN ('holds', 'violated') AND algorithm IS NULL"
        " OR verdict IN ('conforms', 'does_not_conform') AND algorithm IS NOT NULL",
    )
    op.create_check_constraint(
        "of",
        "model_checks",
        "num_nonnulls(algorithm, capture_sha256, capture_filename, connection_id, connection_number)"
        " = CASE WHEN configuration IS NULL THEN 5 ELSE 0 END",
    )


def downgrade() -> None:
    op.execute("DELETE FROM model_checks WHERE algorithm IS NOT NULL")
    op.drop_constraint("ck_model_checks_of", "model_checks")
    op.drop_constraint("ck_model_checks_verdict", "model_checks")
    op.create_check_constraint(op.f(_VERDICT_OF_0005), "model_checks", "verdict IN ('holds', 'violated')")
    op.drop_constraint("uq_model_checks_conformance", "model_checks")
    op.drop_index("ix_model_checks_connection_id", "model_checks")
    op.drop_index("ix_model_checks_capture_id", "model_checks")
    op.drop_constraint("fk_model_checks_capture_id", "model_checks")
    op.alter_column("model_checks", "configuration", nullable=False)
    for column in COLUMNS:
        op.drop_column("model_checks", column.name)
