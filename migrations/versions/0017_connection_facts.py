"""One narrow row for each connection, which searches and aggregates read; notes and uploader of a capture.

The rows of connections that are stored already follow from these and their subflows.
"""

from alembic import op

revision = "0017"
down_revision = "0016"

# Of the subflows, the main one is that with most bytes; of equal ones, the first.
BACKFILL = """
INSERT INTO connection_facts (
    attempt_id, first_ns, bytes, duration_s, goodput_bps, completion_s, retransmission_rate, rtt_us, rtt_min_us, number,
    subflow_count, quality_id, sport, dport, team_id, kind, sender_algorithm, src, dst, mean_windows)
SELECT c.attempt_id, c.first_ns, c.bytes, (c.last_ns - c.first_ns) / 1e9, c.goodput_bps, c.completion_s,
    c.retransmitted_packets / nullif(sums.packets, 0)::float8, main.rtt_median_us, main.rtt_min_us, c.number,
    c.subflow_count, c.quality_id, main.sport, main.dport, a.team_id, c.kind, main.sender_algorithm, main.src, main.dst,
    sums.windows
FROM (
    SELECT attempts.id, captures.team_id FROM attempts JOIN captures ON captures.attempt_id = attempts.id
) a
JOIN connections c ON c.attempt_id = a.id
CROSS JOIN LATERAL (
    SELECT * FROM subflows s WHERE s.attempt_id = c.attempt_id AND s.connection_number = c.number
    ORDER BY s.bytes DESC, s.number LIMIT 1
) main
CROSS JOIN LATERAL (
    SELECT (
        SELECT sum(packets) FROM subflows s WHERE s.attempt_id = c.attempt_id AND s.connection_number = c.number
    ) AS packets, (
        SELECT CASE WHEN bool_or(known) THEN array_agg(CASE WHEN known THEN total ELSE 'NaN' END ORDER BY place) END
        FROM (
            SELECT w.place, sum(w.value) FILTER (WHERE w.value <> 'NaN')::real AS total,
                bool_or(w.value <> 'NaN') AS known
            FROM subflows s CROSS JOIN unnest(s.windows) WITH ORDINALITY w (value, place)
            WHERE s.attempt_id = c.attempt_id AND s.connection_number = c.number AND w.place % 3 = 1
            GROUP BY w.place
        ) of_algorithm
    ) AS windows
) sums
"""


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE connection_facts (
            attempt_id BIGINT NOT NULL,
            first_ns BIGINT NOT NULL,
            bytes BIGINT NOT NULL,
            duration_s DOUBLE PRECISION NOT NULL,
            goodput_bps DOUBLE PRECISION,
            completion_s DOUBLE PRECISION,
            retransmission_rate DOUBLE PRECISION,
            rtt_us BIGINT,
            rtt_min_us BIGINT,
            number INTEGER NOT NULL,
            subflow_count INTEGER NOT NULL,
            quality_id INTEGER NOT NULL,
            sport INTEGER NOT NULL,
            dport INTEGER NOT NULL,
            team_id UUID NOT NULL,
            kind VARCHAR NOT NULL,
            sender_algorithm VARCHAR NOT NULL,
            src INET NOT NULL,
            dst INET NOT NULL,
            mean_windows REAL[],
            CONSTRAINT pk_connection_facts PRIMARY KEY (attempt_id, number),
            CONSTRAINT ck_connection_facts_kind CHECK (kind IN ('tcp', 'mptcp'))
        );
        ALTER TABLE captures ADD COLUMN notes VARCHAR DEFAULT '' NOT NULL, ADD COLUMN uploader_id UUID,
            ADD CONSTRAINT fk_captures_uploader_id FOREIGN KEY (uploader_id) REFERENCES tokens (id) ON DELETE SET NULL;
        CREATE INDEX ix_captures_uploader_id ON captures (uploader_id);
        """
    )
    op.execute(BACKFILL)
    op.execute("CREATE INDEX ix_connection_facts_newest ON connection_facts (team_id, first_ns, attempt_id, number)")


def downgrade() -> None:
    op.execute("DROP TABLE connection_facts")
    op.execute("ALTER TABLE captures DROP COLUMN notes, DROP COLUMN uploader_id")
