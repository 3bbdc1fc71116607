"""Views for programs that only read, such as Grafana. Their names have a version: what a view has, it keeps."""

from alembic import op

revision = "0018"
down_revision = "0017"

VIEWS = {
    "v1_captures": (
        """
        SELECT c.team_id, t.name AS team, c.id AS capture_id, c.filename, c.bytes, c.tags, c.notes,
            c.created_at AS uploaded_at, c.state::text AS state, c.connection_count AS connections
        FROM captures c JOIN teams t ON t.id = c.team_id
        """,
        "Captures of all teams.",
        {
            "team_id": "Id of the team.",
            "team": "Name of the team.",
            "capture_id": "Id of the capture.",
            "filename": "Last part of the name that the client gave.",
            "bytes": "Size of the file.",
            "tags": "What uploads said about it, by key.",
            "notes": "What the team has written about it.",
            "uploaded_at": "When it was uploaded.",
            "state": "queued, running, done or failed.",
            "connections": "How many connections it has; null before its analysis is done.",
        },
    ),
    "v1_connections": (
        """
        SELECT c.team_id, t.name AS team, c.id AS capture_id, c.filename, c.tags, c.tags->>'site' AS site, f.number,
            to_timestamp(f.first_ns / 1e9) AS started_at, f.kind, f.src, f.sport, f.dst, f.dport, f.sender_algorithm,
            f.subflow_count, f.bytes, f.duration_s, f.completion_s, f.goodput_bps, f.retransmission_rate, f.rtt_us,
            f.rtt_min_us, f.rtt_us::float8 / nullif(f.rtt_min_us, 0) AS rtt_inflation, q.verdict, q.quality,
            q.unreliable
        FROM captures c
        JOIN teams t ON t.id = c.team_id
        JOIN connection_facts f ON f.attempt_id = c.attempt_id
        JOIN qualities q ON q.id = f.quality_id
        """,
        "Connections of all teams, those of published results only.",
        {
            "team_id": "Id of the team.",
            "team": "Name of the team.",
            "capture_id": "Id of the capture.",
            "filename": "Name of the capture's file.",
            "tags": "Tags of the capture, by key.",
            "site": "The capture's tag of this name; null without it.",
            "number": "The connection's place in the capture, from 0 on.",
            "started_at": "Time of its first packet.",
            "kind": "tcp or mptcp.",
            "src": "Address of the side of the main subflow that sent more data; the main subflow sent most bytes.",
            "sport": "Port of src.",
            "dst": "Address of the main subflow's other side.",
            "dport": "Port of dst.",
            "sender_algorithm": "The algorithm that the main subflow's sender most likely ran, or unknown.",
            "subflow_count": "How many subflows it has.",
            "bytes": "Bytes of data, each counted once.",
            "duration_s": "Seconds from the first packet to the last.",
            "completion_s": "Seconds from the first packet to the last acknowledgment of data; null without one.",
            "goodput_bps": "Bits of data per second until the last acknowledgment; null without data.",
            "retransmission_rate": "Part of the packets of all subflows that sent data again, 0 to 1.",
            "rtt_us": "Median round-trip time of the main subflow, microseconds; null without a measurement.",
            "rtt_min_us": "Smallest round-trip time of the main subflow, microseconds; null without a measurement.",
            "rtt_inflation": "rtt_us over rtt_min_us.",
            "verdict": "How far its results can be relied on: good, limited or poor.",
            "quality": "What is wrong with it: names of findings.",
            "unreliable": "Results that rest on what is wrong: goodput, completion, retransmissions, rtt, windows ...",
        },
    ),
    "v1_fairness": (
        """
        SELECT c.team_id, t.name AS team, c.id AS capture_id, c.filename, c.tags->>'site' AS site, g.bottleneck,
            g.method,
            (SELECT to_timestamp(min(f.first_ns) / 1e9) FROM connection_facts f WHERE f.attempt_id = g.attempt_id
                AND f.number IN (SELECT jsonb_array_elements_text(g.members->'connections')::integer)) AS started_at,
            jsonb_array_length(g.members->'connections') AS members, g.jain, g.mptcp_to_tcp_ratio,
            (g.members->>'capacity_bps')::float8 AS capacity_bps, g.verdict
        FROM captures c
        JOIN teams t ON t.id = c.team_id
        JOIN fairness_groups g ON g.attempt_id = c.attempt_id
        """,
        "Groups of connections that share a bottleneck, of all teams, those of published results only.",
        {
            "team_id": "Id of the team.",
            "team": "Name of the team.",
            "capture_id": "Id of the capture.",
            "filename": "Name of the capture's file.",
            "site": "The capture's tag of this name; null without it.",
            "bottleneck": "Name of the bottleneck within the capture.",
            "method": "How it was found: sbd, declared or interface.",
            "started_at": "Time of the first packet of a member.",
            "members": "How many connections share it.",
            "jain": "Jain's fairness index of the members' goodputs.",
            "mptcp_to_tcp_ratio": "Mean goodput of the MPTCP members over that of the TCP members; null without both.",
            "capacity_bps": "What the members have of it together, bits per second; null where nothing tells it.",
            "verdict": "The worst verdict on a member: good, limited or poor.",
        },
    ),
}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def upgrade() -> None:
    for name, (query, about, columns) in VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {query}".replace(":", r"\:"))
        op.execute(f"COMMENT ON VIEW {name} IS {_quoted(about)}")
        for column, meaning in columns.items():
            op.execute(f"COMMENT ON COLUMN {name}.{column} IS {_quoted(meaning)}".replace(":", r"\:"))


def downgrade() -> None:
    for name in VIEWS:
        op.execute(f"DROP VIEW {name}")
