from __future__ import annotations

from api.connections.schemas import UploaderOut
from api.exports import Addresses
from api.schemas import Schema


class PercentilesOut(Schema):
    """Off by at most 1 %: they are the middles of the histogram's buckets."""

    p5: float
    """5 % of the values are smaller."""
    p25: float
    """A quarter of the values is smaller."""
    p50: float
    """Half of the values are smaller."""
    p75: float
    """Three quarters of the values are smaller."""
    p95: float
    """95 % of the values are smaller."""
    p99: float
    """99 % of the values are smaller."""


class BucketOut(Schema):
    low: float
    """Least value of the bucket."""
    high: float
    """Greatest value of the bucket."""
    count: int
    """How many values it has."""


class AggregateOut(Schema):
    """A measure's values in one group."""

    key: list[str | None]
    """The group's value of each dimension, in the order of `group_by`; null: it has none. Of hour and day its begin
    (RFC 3339, UTC)."""
    count: int
    """How many values there are; all that follows is about these."""
    unreliable: int
    """How many values are left out, because something is wrong with the connection that makes them unreliable."""
    missing: int
    """How many have no value."""
    mean: float | None
    """Null without values."""
    min: float | None
    """The smallest value; null without values."""
    max: float | None
    """The largest value; null without values."""
    percentiles: PercentilesOut | None
    """Null without values."""
    histogram: list[BucketOut] | None
    """Buckets that have values, from the smallest on; null unless it was asked for."""


class AggregateRow(AggregateOut):
    """Of a file, which has nothing beside its rows."""

    measure: str
    """As it was asked for."""
    unit: str
    """Of the values: bit/s, s, us, segments, or 1."""


class AggregatesOut(Schema):
    measure: str
    """As it was asked for."""
    unit: str
    """Of the values: bit/s, s, us, segments, or 1."""
    total: AggregateOut
    """Of all groups, those that are not shown included; its key is empty."""
    groups: list[AggregateOut]
    """By time where a dimension is hour or day, of which the newest are shown; else the largest first."""
    groups_total: int
    """How many groups there are, those that are not shown included."""


class ValueCount(Schema):
    value: str | None
    """Null: those without one."""
    connections: int
    """How many connections have it."""


class FieldValues(Schema):
    """The most frequent values of one field among connections."""

    field: str
    """As it was asked for."""
    values: list[ValueCount]
    """The most frequent first."""
    distinct: int
    """How many different values there are."""


class ValuesOut(Schema):
    fields: list[FieldValues]
    """In the order of the request."""


class NamesOut(Schema):
    """What filters and dimensions can name among the team's captures."""

    tag_keys: list[str]
    """Keys of tags, the most frequent first."""
    uploaders: list[UploaderOut]
    """Tokens that captures were uploaded with first, by name."""


class ValueShares(Schema):
    value: str | None
    """Null: those without one."""
    selection: int
    """Connections of the selection that have it."""
    baseline: int
    """Connections of the baseline that have it."""
    selection_share: float
    """Part of the selection, 0 to 1."""
    baseline_share: float
    """Part of the baseline, 0 to 1."""


class DimensionShares(Schema):
    """How the connections of two selections are spread over the values of a dimension."""

    dimension: str
    """Its name, as `group_by` takes it."""
    distance: float
    """Half the sum of the differences of the shares (total variation): 0, all are alike, to 1, none in common."""
    chance: float
    """The mean distance that selections of these sizes have if connections are put into them at random: many rare
    values, as of ports, make it large. Connections of one capture are alike, so that captures put at random differ by
    more; selections of which some connections are in both by less, unless one has all of the other."""
    values: list[ValueShares]
    """Those whose shares differ most, first."""


class ComparisonRow(ValueShares):
    """Of a file."""

    dimension: str
    """Its name, as `group_by` takes it."""
    distance: float
    """Of the dimension, as in `DimensionShares`."""
    chance: float
    """Of the dimension, as in `DimensionShares`."""


class ComparisonOut(Schema):
    measure: str
    """As it was asked for."""
    unit: str
    """Of the values: bit/s, s, us, segments, or 1."""
    selection: AggregateOut
    """The measure in the selection."""
    baseline: AggregateOut
    """The measure in the baseline."""
    dimensions: list[DimensionShares]
    """The dimension in which they differ most beyond chance, first."""
    addresses: Addresses
    """What is stored of the addresses in the captures of both: kept, replaced by others, or in some replaced."""


class ChangeOut(Schema):
    """A mean that differs between two periods by more than chance would have it."""

    measure: str
    """As it was asked for."""
    dimension: str
    """As it was asked for."""
    value: str | None
    """The group's value of the dimension; null: it has none."""
    before: float
    """Mean before the split: geometric where the change is a ratio, else arithmetic."""
    after: float
    """Mean from the split on."""
    is_ratio: bool
    """Are `low` and `high` ratios of the later mean to the earlier one? Else they are differences."""
    low: float
    """The least change that the data allow, with 95 % confidence; captures are the sample."""
    high: float
    """The greatest change that the data allow."""
    connections: list[int]
    """Values before the split, and from it on."""
    captures: list[int]
    """Captures that they are of."""
    chance: float
    """How likely such a difference is without a change, adjusted for all that was compared (Holm)."""


class ChangesOut(Schema):
    changes: list[ChangeOut]
    """The largest first."""
    compared: int
    """How many groups were compared."""
    too_few: int
    """How many groups were not, because a period has fewer than 20 of their values, or values of fewer than 5
    captures."""
