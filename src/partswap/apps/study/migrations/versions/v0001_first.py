"""The first version: people, answers, facts about the study, sessions of administrators."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "participants",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("slot", sa.Integer, nullable=False, unique=True),
        sa.Column("token", sa.String(64), nullable=False, unique=True),
        sa.Column("name", sa.String(200), unique=True),
        sa.Column("given", sa.Text, nullable=False, server_default="{}"),
        sa.Column("simulated", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("finished", sa.Float),
        sa.Column("code", sa.String(32)),
    )
    op.create_table(
        "answers",
        sa.Column("participant", sa.Integer, sa.ForeignKey("participants.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("step", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("choice", sa.String(16), nullable=False),
        sa.Column("client_ms", sa.Float),
        sa.Column("server_ms", sa.Float),
        sa.Column("created", sa.Float, nullable=False),
    )
    op.create_table(
        "facts", sa.Column("name", sa.String(64), primary_key=True), sa.Column("value", sa.Text, nullable=False)
    )
    op.create_table(
        "sessions",
        sa.Column("token", sa.String(64), primary_key=True),
        sa.Column("form", sa.String(64), nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
    )


def downgrade() -> None:
    """Remove the tables."""
    for table in ("sessions", "facts", "answers", "participants"):
        op.drop_table(table)
