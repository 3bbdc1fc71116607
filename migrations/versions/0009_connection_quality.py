"""Stored captures get the number of connections and bytes with each verdict; a capture without packets becomes poor."""

from alembic import op

revision = "0009"
down_revision = "0008"

NO_PACKETS = (
    """{"what": "no_packets", "count": 1, "since_s": null, "packet": null, "unreliable": [],"""
    """ "meaning": "the capture has no packets", "file": 0}"""
)


def upgrade() -> None:
    # Captures without `quality` were analysed before verdicts were given: their connections have none.
    verdicts = ", ".join(
        f"'{v}', jsonb_build_object('connections', count(c.id) FILTER (WHERE c.verdict = '{v}'),"
        f" 'bytes', coalesce(sum(c.bytes) FILTER (WHERE c.verdict = '{v}'), 0))"
        for v in ("good", "limited", "poor")
    )
    op.execute(
        f"""
        UPDATE captures SET summary = summary || jsonb_build_object('connection_quality', found.counts)
        FROM (
            SELECT captures.id, jsonb_build_object({verdicts}) AS counts
            FROM captures LEFT JOIN connections c ON c.capture_id = captures.id
            WHERE captures.summary ? 'quality'
            GROUP BY captures.id
        ) found
        WHERE found.id = captures.id AND NOT summary ? 'connection_quality'
        """
    )
    op.execute(
        f"""
        UPDATE captures
        SET summary = summary || jsonb_build_object('quality', jsonb_build_object(
            'verdict', 'poor', 'findings', summary->'quality'->'findings' || '[{NO_PACKETS}]'::jsonb))
        WHERE summary ? 'quality' AND summary->>'packets' = '0'
            AND NOT summary->'quality'->'findings' @> '[{{"what": "no_packets"}}]'
        """
    )


def downgrade() -> None:
    op.execute(
        """
        UPDATE captures SET summary = jsonb_set(summary, '{quality,findings}', (
            SELECT coalesce(jsonb_agg(f), '[]') FROM jsonb_array_elements(summary->'quality'->'findings') f
            WHERE f->>'what' <> 'no_packets')) - 'connection_quality'
        WHERE summary ? 'quality'
        """
    )
    op.execute(
        """
        UPDATE captures SET summary = jsonb_set(summary, '{quality,verdict}', '"good"')
        WHERE summary->>'packets' = '0' AND summary->'quality'->'findings' = '[]'
        """
    )
