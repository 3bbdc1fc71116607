"""Views of the dashboard's pages that a team saves."""

from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE saved_views (
            id UUID NOT NULL,
            team_id UUID NOT NULL,
            page VARCHAR NOT NULL,
            name VARCHAR NOT NULL,
            query VARCHAR NOT NULL,
            author VARCHAR NOT NULL,
            created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
            changed_by VARCHAR,
            changed_at TIMESTAMP WITH TIME ZONE,
            CONSTRAINT pk_saved_views PRIMARY KEY (id),
            CONSTRAINT fk_saved_views_team_id FOREIGN KEY (team_id) REFERENCES teams (id) ON DELETE CASCADE,
            CONSTRAINT ck_saved_views_changed CHECK ((changed_by IS NULL) = (changed_at IS NULL)),
            CONSTRAINT uq_saved_views_team_id_page_name UNIQUE (team_id, page, name)
        );
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE saved_views")
