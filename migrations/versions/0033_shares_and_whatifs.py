"""Views of fair shares and of what-ifs, for programs that only read; when a completion time begins; spreads of fairness
groups, for which each day is counted again."""

from alembic import op

revision = "0033"
down_revision = "0032"

VIEWS = {
    "v1_shares": (
        """
        SELECT c.team_id, t.name AS team, c.id AS capture_id, c.filename, c.tags->>'site' AS site, g.bottleneck,
            f.number, to_timestamp(f.first_ns / 1e9) AS started_at, f.kind, f.sender_algorithm,
            (s.share->>'goodput_bps')::float8 AS goodput_bps, (s.share->>'fair_bps')::float8 AS fair_bps,
            (s.share->>'ratio')::float8 AS ratio, (s.share->>'shared_s')::float8 AS shared_s,
            s.share->>'limited_by' AS limited_by, g.verdict
        FROM captures c
        JOIN teams t ON t.id = c.team_id
        JOIN fairness_groups g ON g.attempt_id = c.attempt_id
        CROSS JOIN LATERAL jsonb_array_elements(g.members->'shares') WITH ORDINALITY AS s (share, place)
        JOIN connection_facts f ON f.attempt_id = g.attempt_id
            AND f.number = (g.members->'connections'->>(s.place::integer - 1))::integer
        """,
        "Members of the groups that share a bottleneck, of all teams, those of published results only.",
        {
            "team_id": "Id of the team.",
            "team": "Name of the team.",
            "capture_id": "Id of the capture.",
            "filename": "Name of the capture's file.",
            "site": "The capture's tag of this name; null without it.",
            "bottleneck": "Name of the bottleneck within the capture.",
            "number": "The connection's place in the capture, from 0 on.",
            "started_at": "Time of the connection's first packet.",
            "kind": "tcp or mptcp.",
            "sender_algorithm": "The algorithm that the main subflow's sender most likely ran, or unknown.",
            "goodput_bps": "Bits of data per second over the time that it shared with others; null where unknown.",
            "fair_bps": "Its max-min fair share over that time, bits per second; null where unknown.",
            "ratio": "goodput_bps over fair_bps: above 1 it took from others; null where unknown.",
            "shared_s": "Seconds that it shared with others; null where unknown.",
            "limited_by": "network: it would send all it can; demand: it is owed no more than it sent; null: unknown.",
            "verdict": "The worst verdict on a member of the group: good, limited or poor.",
        },
    ),
    "v1_whatifs": (
        """
        SELECT c.team_id, t.name AS team, c.id AS capture_id, c.filename, c.tags->>'site' AS site, f.number,
            to_timestamp(f.first_ns / 1e9) AS started_at, f.kind, f.sender_algorithm, w.algorithm, w.label, w.everyone,
            w.repeat AS runs, w.settings, w.finished_at, w.result->>'verdict' AS verdict,
            (w.result->'recorded'->>'goodput_bps')::float8 AS recorded_goodput_bps,
            (w.result->'predicted'->'goodput_bps'->>'median')::float8 AS predicted_goodput_bps,
            (w.result->'predicted'->'goodput_bps'->>'low')::float8 AS predicted_goodput_bps_low,
            (w.result->'predicted'->'goodput_bps'->>'high')::float8 AS predicted_goodput_bps_high,
            (w.result->'predicted'->'goodput_bps'->>'median')::float8
                / nullif((w.result->'recorded'->>'goodput_bps')::float8, 0) AS gain
        FROM captures c
        JOIN teams t ON t.id = c.team_id
        JOIN whatifs w ON w.capture_id = c.id AND w.state = 'done'
        JOIN connection_facts f ON f.attempt_id = c.attempt_id AND f.number = w.connection_number
        """,
        "Finished what-ifs of connections of all teams: what would have come of another algorithm.",
        {
            "team_id": "Id of the team.",
            "team": "Name of the team.",
            "capture_id": "Id of the capture.",
            "filename": "Name of the capture's file.",
            "site": "The capture's tag of this name; null without it.",
            "number": "The connection's place in the capture, from 0 on.",
            "started_at": "Time of the connection's first packet.",
            "kind": "tcp or mptcp.",
            "sender_algorithm": "The algorithm that the main subflow's sender most likely ran, or unknown.",
            "algorithm": "The algorithm that it is predicted with.",
            "label": "The algorithm, followed by the options that differ from their defaults.",
            "everyone": "Do all connections that share a bottleneck with it change, too?",
            "runs": "How many runs were asked for: a question may have been asked with several numbers.",
            "settings": "Changes of the network, by name; empty without one.",
            "finished_at": "When the prediction was done.",
            "verdict": "ok, or cannot_say.",
            "recorded_goodput_bps": "Bits of data per second, as recorded; null where unknown.",
            "predicted_goodput_bps": "The median of the predicted goodputs, bits per second; null without one.",
            "predicted_goodput_bps_low": "Where the 90 % interval of the predicted goodput begins.",
            "predicted_goodput_bps_high": "Where it ends.",
            "gain": "predicted_goodput_bps over recorded_goodput_bps.",
        },
    ),
}
COMPLETION = "Seconds from the first {} to the last acknowledgment of data; null without one."


def _comment(what: str, text: str) -> None:
    quoted = "'" + text.replace("'", "''") + "'"
    op.execute(f"COMMENT ON {what} IS {quoted}".replace(":", r"\:"))


def upgrade() -> None:
    for name, (query, about, columns) in VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {query}".replace(":", r"\:"))
        _comment(f"VIEW {name}", about)
        for column, meaning in columns.items():
            _comment(f"COLUMN {name}.{column}", meaning)
    _comment("COLUMN v1_connections.completion_s", COMPLETION.format("data"))
    op.execute(
        """
        INSERT INTO stale_days (team_id, day)
        SELECT c.team_id, unnest(a.days) FROM captures c JOIN attempts a ON a.id = c.attempt_id
        WHERE EXISTS (SELECT FROM fairness_groups g WHERE g.attempt_id = a.id)
        EXCEPT SELECT team_id, day FROM stale_days
        """
    )


def downgrade() -> None:
    op.execute("DELETE FROM day_spreads WHERE measure IN ('jain', 'mptcp_to_tcp_ratio')")
    _comment("COLUMN v1_connections.completion_s", COMPLETION.format("packet"))
    for name in VIEWS:
        op.execute(f"DROP VIEW {name}")
