"""`harm` of a what-if's neighbours is what Ware et al. define, which needs runs that predictions of before have not."""

from alembic import op

revision = "0036"
down_revision = "0035"


def _set_harm(value: str) -> None:
    """value: SQL of a neighbour `n`."""
    op.execute(
        f"""
        UPDATE whatifs SET result = jsonb_set(result, '{{neighbours}}', (
            SELECT jsonb_agg(jsonb_set(n, '{{harm}}', {value}) ORDER BY place)
            FROM jsonb_array_elements(result->'neighbours') WITH ORDINALITY AS e (n, place)
        ))
        WHERE result->'neighbours' <> '[]'
        """
    )


def upgrade() -> None:
    _set_harm("'null'")


def downgrade() -> None:
    """It was what a neighbour loses of its goodput, compared with the recorded algorithm."""
    goodput = "n->'change'->'goodput_bps'"
    parts = (("median", "median"), ("low", "high"), ("high", "low"))
    told = ", ".join(f"'{name}', -({goodput}->>'{other}')\\:\\:numeric" for name, other in parts)
    _set_harm(f"CASE WHEN {goodput} IS NULL THEN 'null' ELSE jsonb_build_object({told}) END")
