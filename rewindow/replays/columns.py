"""The core's batches as Arrow record batches. This module is separate because NumPy and Arrow load slowly."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rewindow.controllers.detector import NAMES, STATES
from rewindow.core import ffi, lib, name_of

FLAG_NAMES = ("dup", "sack", "ece", "retransmit", "app_limited", "rwnd_limited")
"""By bit, from the lowest."""
_RAISES = 64
_NO_WINDOW = np.uint32(0xFFFFFFFF)
_UNSET = np.uint64(0xFFFFFFFFFFFFFFFF)

PHASES = [p for i in range(16) if (p := name_of(lib.rw_phase_name, i))]
MARKS = [m for i in range(32) if (m := name_of(lib.rw_mark_name, i))]

SEGMENT_KINDS = [k for i in range(16) if (k := name_of(lib.rw_segment_kind_name, i))]

EVENT_COLUMNS = (
    ("time_ns", "int64_t", np.int64),
    ("connection", "uint32_t", np.uint32),
    ("subflow", "uint32_t", np.uint32),
    ("una", "uint32_t", np.uint32),
    ("ack", "uint32_t", np.uint32),
    ("acked_bytes", "uint32_t", np.uint32),
    ("acked_segments", "uint32_t", np.uint32),
    ("rtt_us", "uint32_t", np.uint32),
    ("srtt_us", "uint32_t", np.uint32),
    ("in_flight_bytes", "uint32_t", np.uint32),
    ("window_bytes", "uint32_t", np.uint32),
    ("segment_bytes", "uint32_t", np.uint32),
    ("next", "uint32_t", np.uint32),
    ("position", "int64_t", np.int64),
    ("flags", "uint16_t", np.uint16),
)


_SEGMENT_ROW = np.dtype(
    {
        "names": ["time_ns", "position", "bytes", "subflow", "kind"],
        "formats": [np.int64, np.int64, np.uint32, np.uint32, np.uint8],
        "offsets": [ffi.offsetof("rw_segment_row", f) for f in ("time_ns", "position", "bytes", "subflow", "kind")],
        "itemsize": ffi.sizeof("rw_segment_row"),
    }
)


def _column(pointer: Any, ctype: str, dtype: Any, n: int) -> npt.NDArray[Any]:
    if n == 0:
        return np.empty(0, dtype)
    buffer = ffi.buffer(ffi.cast(f"const {ctype} *", pointer), n * np.dtype(dtype).itemsize)
    return np.frombuffer(buffer, dtype).copy()  # the core reuses its columns at the next call


def _segments(pointer: Any, n: int) -> npt.NDArray[np.float64]:
    q16 = _column(pointer, "uint64_t", np.uint64, n)
    segments: npt.NDArray[np.float64] = q16 / 65536.0
    segments[q16 == _UNSET] = np.inf
    return segments


def _per_second(pointer: Any, n: int) -> npt.NDArray[np.float64]:
    rates: npt.NDArray[np.float64] = _column(pointer, "uint64_t", np.uint64, n) * (1e6 / (1 << 24))
    return rates


def _phase_column(codes: npt.NDArray[np.uint8]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int8)), pa.array(PHASES))


def _flag_text(bits: int) -> str:
    return "|".join(name for i, name in enumerate(FLAG_NAMES) if bits >> i & 1)


_FLAG_TEXTS = pa.array([_flag_text(b) for b in range(1 << len(FLAG_NAMES))])


def flags_column(flags: npt.NDArray[np.uint16]) -> pa.DictionaryArray:
    """Flag bits as `|`-joined names, in the contract's order."""
    return pa.DictionaryArray.from_arrays(pa.array((flags & 63).astype(np.int8)), _FLAG_TEXTS)


RATE_COLUMNS = (("bandwidth_segments_s", "bandwidth_q24"), ("pacing_segments_s", "pacing_q24"))
"""Of a rate-based algorithm: the bandwidth that it takes the path to have, and how fast it may send."""


def acks_schema(labels: Sequence[str], rate_based: Container[str] = ()) -> pa.Schema:
    """Event columns, then cwnd_before, cwnd, ssthresh and phase of each algorithm, prefixed by its label.

    rate_based: labels that have RATE_COLUMNS, too.
    """
    fields = [(name, pa.from_numpy_dtype(dtype)) for name, _, dtype in EVENT_COLUMNS if name != "flags"]
    fields += [("flags", pa.dictionary(pa.int8(), pa.string())), ("raises", pa.bool_())]
    for label in labels:
        fields += [(f"{label}.{c}", pa.float64()) for c in ("cwnd_before", "cwnd", "ssthresh")]
        fields.append((f"{label}.phase", pa.dictionary(pa.int8(), pa.string())))
        if label in rate_based:
            fields += [(f"{label}.{c}", pa.float64()) for c, _ in RATE_COLUMNS]
    return pa.schema(fields)


MARKS_SCHEMA = pa.schema(
    [
        ("time_ns", pa.int64()),
        ("row", pa.uint64()),
        ("connection", pa.uint32()),
        ("subflow", pa.uint32()),
        ("kind", pa.dictionary(pa.int8(), pa.string())),
        ("value", pa.uint32()),
    ]
)


SEGMENTS_SCHEMA = pa.schema(
    [
        ("time_ns", pa.int64()),
        ("subflow", pa.uint32()),
        ("kind", pa.dictionary(pa.int8(), pa.string())),
        ("position", pa.int64()),
        ("bytes", pa.uint32()),
    ]
)
"""Data segments and SACK blocks of one connection. `position`: of the first byte, as in the rows of ACKs."""

SETS_SCHEMA = pa.schema(
    [
        ("time_ns", pa.int64()),
        ("connection", pa.uint32()),
        ("subflow", pa.uint32()),
        ("detector", pa.dictionary(pa.int8(), pa.string())),
        ("state", pa.dictionary(pa.int8(), pa.string())),
        ("set", pa.uint8()),
    ]
)
"""When a detector begins to watch a subflow, and each change since; `set` is null outside any."""


def acks(batch: Any, schema: pa.Schema, places: Sequence[int]) -> pa.RecordBatch:
    """places: indices of the wanted algorithms among the replayed ones; schema: acks_schema of their labels."""
    n = batch.rows
    columns: list[Any] = []
    for name, ctype, dtype in EVENT_COLUMNS:
        values = _column(getattr(batch, name), ctype, dtype, n)
        if name == "flags":
            columns += [flags_column(values), pa.array((values & _RAISES) != 0)]
        elif name in ("rtt_us", "srtt_us"):
            columns.append(pa.array(values, mask=values == 0))
        elif name == "window_bytes":
            columns.append(pa.array(values, mask=values == _NO_WINDOW))
        else:
            columns.append(pa.array(values))
    for k in places:
        columns += [
            pa.array(_segments(getattr(batch, c)[k], n)) for c in ("cwnd_before_q16", "cwnd_q16", "ssthresh_q16")
        ]
        columns.append(_phase_column(_column(batch.phase[k], "uint8_t", np.uint8, n)))
        if batch.bandwidth_q24[k] != ffi.NULL:
            columns += [pa.array(_per_second(getattr(batch, c)[k], n)) for _, c in RATE_COLUMNS]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def marks(batch: Any) -> pa.RecordBatch:
    n = batch.marks
    kinds = _column(batch.mark_kind, "uint8_t", np.uint8, n).astype(np.int8)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(_column(batch.mark_time_ns, "int64_t", np.int64, n)),
            pa.array(_column(batch.mark_row, "uint64_t", np.uint64, n)),
            pa.array(_column(batch.mark_connection, "uint32_t", np.uint32, n)),
            pa.array(_column(batch.mark_subflow, "uint32_t", np.uint32, n)),
            pa.DictionaryArray.from_arrays(pa.array(kinds), pa.array(MARKS)),
            pa.array(_column(batch.mark_value, "uint32_t", np.uint32, n)),
        ],
        schema=MARKS_SCHEMA,
    )


def segments(batch: Any) -> pa.RecordBatch:
    """Of a batch that has some."""
    n = batch.segments
    rows = np.frombuffer(ffi.buffer(batch.segment, n * _SEGMENT_ROW.itemsize), _SEGMENT_ROW)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(rows["time_ns"].copy()),
            pa.array(rows["subflow"].copy()),
            pa.DictionaryArray.from_arrays(pa.array(rows["kind"].astype(np.int8)), pa.array(SEGMENT_KINDS)),
            pa.array(rows["position"].copy()),
            pa.array(rows["bytes"].copy()),
        ],
        schema=SEGMENTS_SCHEMA,
    )


def sets(batch: Any) -> pa.RecordBatch:
    n = batch.sets
    numbers = _column(batch.set_number, "uint8_t", np.uint8, n)
    coded = [
        pa.DictionaryArray.from_arrays(
            pa.array(_column(codes, "uint8_t", np.uint8, n).astype(np.int8)), pa.array(names)
        )
        for codes, names in ((batch.set_detector, NAMES), (batch.set_state, STATES))
    ]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(_column(batch.set_time_ns, "int64_t", np.int64, n)),
            pa.array(_column(batch.set_connection, "uint32_t", np.uint32, n)),
            pa.array(_column(batch.set_subflow, "uint32_t", np.uint32, n)),
            *coded,
            pa.array(numbers, mask=numbers == 0),
        ],
        schema=SETS_SCHEMA,
    )
