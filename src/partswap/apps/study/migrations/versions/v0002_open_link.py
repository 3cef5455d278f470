"""Who joined by the open link: its places are counted apart from personal links."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column; until now, those who came with an id joined by the open link."""
    op.add_column("participants", sa.Column("open_link", sa.Boolean, nullable=False, server_default=sa.false()))
    people = sa.table("participants", sa.column("name"), sa.column("given"), sa.column("open_link"))
    joined = sa.or_(people.c.name.is_not(None), people.c.given != "{}")
    op.execute(people.update().where(joined).values(open_link=sa.true()))


def downgrade() -> None:
    """Remove the column."""
    with op.batch_alter_table("participants") as table:
        table.drop_column("open_link")
