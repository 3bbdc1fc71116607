"""What all schemas of the API have in common, and schemas whose fields are the columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from store.models import Base

M = TypeVar("M", bound=BaseModel)


class Schema(BaseModel):
    """Docstrings of fields are their descriptions in the OpenAPI document; an answer has every field."""

    model_config = ConfigDict(
        from_attributes=True, use_attribute_docstrings=True, json_schema_serialization_defaults_required=True
    )


class Wanted(Schema):
    """The body of a request. A field that it does not know is refused: what was meant by it would not happen."""

    model_config = ConfigDict(extra="forbid")


def with_columns(table: type[Base], without: Collection[str] = ()) -> Callable[[type[M]], type[M]]:
    """Adds a field to the decorated schema for each column of the table, with the column's type.

    A field that the schema itself declares stays as it is; columns in `without` are left out.
    """
    hints = get_type_hints(table)
    fields: dict[str, Any] = {}
    for column in table.__table__.columns:
        if column.name not in without:
            (fields[column.name],) = get_args(hints[column.name])  # of Mapped[...]

    def extend(schema: type[M]) -> type[M]:
        added: dict[str, Any] = {n: (kind, ...) for n, kind in fields.items() if n not in schema.model_fields}
        return create_model(
            schema.__name__, __base__=schema, __module__=schema.__module__, __doc__=schema.__doc__, **added
        )

    return extend
