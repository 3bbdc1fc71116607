"""Opening captures: streams, compression, several as one, and what cannot be read."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import struct
import subprocess
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import lz4.frame
import pytest
import zstandard

import rewindow
from rewindow.captures import decompression
from tests.packets import ETHERNET_HEADER, Trace, snoop

SAMPLE = Path(__file__).parent.parent / "captures" / "mptcp-ecn.pcap"


def packets(source: object) -> int:
    with rewindow.open(source) as capture, capture.stream() as replay:  # type: ignore[arg-type]
        replay.run()
        return replay.summary().packets


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda b: zstandard.ZstdCompressor().compress(b),
    "lz4": lz4.frame.compress,
}


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_compressed(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(COMPRESSORS[kind](SAMPLE.read_bytes()))
    assert packets(path) == packets(SAMPLE)
    assert packets(io.BytesIO(path.read_bytes())) == packets(SAMPLE)


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_compressed_and_cut(kind: str, tmp_path: Path) -> None:
    """What could be decompressed is analysed; the summary says that it was cut, or the error that nothing was left."""
    whole = COMPRESSORS[kind](SAMPLE.read_bytes())
    path = tmp_path / "capture"
    path.write_bytes(whole[: len(whole) * 2 // 3])
    try:
        with rewindow.open(path) as capture, capture.stream() as replay:
            replay.run()
            summary = replay.summary()
    except rewindow.CaptureUnreadable:
        assert kind in ("bzip2", "lz4", "zstd")  # one block holds everything
    else:
        assert 0 < summary.packets < packets(SAMPLE)
        assert summary.oddities["cut_capture"]["count"] == 1


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_compressed_and_damaged(kind: str, tmp_path: Path) -> None:
    whole = bytearray(COMPRESSORS[kind](SAMPLE.read_bytes()))
    for i in range(len(whole) // 2, len(whole) // 2 + 40):
        whole[i] ^= 0x5A
    path = tmp_path / "capture"
    path.write_bytes(bytes(whole))
    try:
        found = packets(path)
    except rewindow.CaptureUnreadable:
        found = 0  # damaged before the first byte came out
    assert found <= packets(SAMPLE)


def whole_records(size: int) -> bytes:
    """Of the sample: its header and so many bytes or more, up to the end of a record."""
    data, at = SAMPLE.read_bytes(), 24
    while at < size:
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
    return data[:at]


def oddities(path: Path) -> dict[str, int]:
    with rewindow.open(path) as capture, capture.stream() as replay:
        replay.run()
        return {name: seen["count"] for name, seen in replay.summary().oddities.items()}


@pytest.mark.parametrize("kind", ["gzip", "zstd", "lz4", "xz"])
def test_what_is_missing_after_a_whole_record_is_told(kind: str, tmp_path: Path) -> None:
    """The second of two streams ends in its header."""
    path = tmp_path / "capture"
    path.write_bytes(COMPRESSORS[kind](whole_records(100_000)))
    assert oddities(path) == {}
    path.write_bytes(path.read_bytes() + COMPRESSORS[kind](SAMPLE.read_bytes())[:9])
    assert oddities(path) == {"cut_capture": 1}


def test_a_checksum_that_is_wrong_is_told(tmp_path: Path) -> None:
    path = tmp_path / "capture.gz"
    whole = bytearray(gzip.compress(whole_records(100_000)))
    whole[-5] ^= 1
    path.write_bytes(whole)
    assert oddities(path) == {"cut_capture": 1}
    whole[-5] ^= 1
    path.write_bytes(bytes(whole) + b"not of it")  # as gunzip, which ignores it
    assert oddities(path) == {}


def test_a_cut_before_the_first_block_is_no_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "capture.zst"
    path.write_bytes(zstandard.compress(SAMPLE.read_bytes())[:20])
    with pytest.raises(rewindow.CaptureUnreadable, match="zstd: the end of the stream is missing"):
        packets(path)


@pytest.mark.parametrize("kind", ["zstd", "lz4"])
def test_frames_without_data_are_passed_over(kind: str, tmp_path: Path) -> None:
    """pzstd and the seekable format write them; lz4's are the same."""
    frame = (0x184D2A5E).to_bytes(4, "little") + (9).to_bytes(4, "little") + b"skip this"
    path = tmp_path / "capture"
    whole = SAMPLE.read_bytes()
    parts = [COMPRESSORS[kind](part) for part in (whole[:300_000], whole[300_000:])]
    path.write_bytes(frame + frame + parts[0] + parts[1] + frame)
    assert oddities(path) == {}
    assert packets(path) == packets(io.BytesIO(path.read_bytes())) == packets(SAMPLE)


class Endless(io.RawIOBase):
    """Text without an end."""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return b"y\n" * (size // 2)


def test_a_stream_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "UNKNOWN_BYTES_MAX", 4 << 20)
    with pytest.raises(rewindow.CaptureUnreadable, match="more than 4194304 bytes"):
        packets(Endless())


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_a_bomb_is_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "COMPRESSED_RATIO_FREE_BYTES", 1 << 20)
    monkeypatch.setattr(decompression, "COMPRESSED_RATIO_MAX", 50)
    path = tmp_path / "bomb"
    path.write_bytes(COMPRESSORS[kind](SAMPLE.read_bytes()[:24] + bytes(64 << 20)))
    with pytest.raises(rewindow.CaptureUnreadable, match=f"{kind}: expands more than 50 times"):
        packets(path)


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_what_expands_too_far_is_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However well it compressed."""
    monkeypatch.setattr(decompression, "EXPANDED_BYTES_MAX", 1 << 20)
    path = tmp_path / "long"
    path.write_bytes(COMPRESSORS[kind](SAMPLE.read_bytes()[:24] + os.urandom(2 << 20)))
    with pytest.raises(rewindow.CaptureUnreadable, match=f"{kind}: expands to more than 1048576 bytes"):
        packets(path)


def test_an_xz_that_asks_for_much_memory_is_refused(tmp_path: Path) -> None:
    whole = bytearray(lzma.compress(SAMPLE.read_bytes()))
    assert whole[14:16] == b"\x21\x01"  # the first block's filter: LZMA2, one byte of properties
    whole[16] = 38  # a dictionary of 1 GiB
    whole[20:24] = zlib.crc32(bytes(whole[12:20])).to_bytes(4, "little")
    path = tmp_path / "capture.xz"
    path.write_bytes(bytes(whole))
    with pytest.raises(rewindow.CaptureUnreadable, match="xz: Memory usage limit exceeded"):
        packets(path)


def test_several_xz_streams_are_one_file(tmp_path: Path) -> None:
    whole = SAMPLE.read_bytes()
    path = tmp_path / "capture.xz"
    path.write_bytes(lzma.compress(whole[:300_000]) + bytes(8) + lzma.compress(whole[300_000:]) + b"not of it")
    assert packets(path) == packets(SAMPLE)


def test_a_pipe() -> None:
    read, write = os.pipe()

    def feed() -> None:
        with os.fdopen(write, "wb") as out:
            out.write(SAMPLE.read_bytes())

    thread = threading.Thread(target=feed)
    thread.start()
    with os.fdopen(read, "rb") as stream:
        assert packets(stream) == packets(SAMPLE)
    thread.join()


def test_several_captures_are_one_observation(tmp_path: Path) -> None:
    both, client, server = Trace(), Trace(), Trace()
    both.handshake(1.0, 0.1)
    for i in range(10):
        both.packet(1.2 + i * 1e-3, True, 1 + i * 100, 1001, payload=100)
        both.packet(1.3 + i * 1e-3, False, 1001, 101 + i * 100)
    for time_ns, data, wire in both.records:
        (client if data[12:16] == bytes([10, 0, 0, 1]) else server).records.append((time_ns, data, wire))
    paths = [t.write(tmp_path / f"{n}.pcap") for n, t in (("a", client), ("b", server), ("c", both))]
    with rewindow.open(paths[0], paths[1]) as split, rewindow.open(paths[2]) as whole:
        first, second = split.replay(["newreno"]), whole.replay(["newreno"])
    assert first.acks.equals(second.acks)
    assert first.summary.packets == second.summary.packets


def test_snoop_is_read_without_tshark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pcap, and as other programs write it. Times are whole microseconds, which is what snoop keeps."""
    trace = Trace()
    trace.handshake(1.0, 0.1)
    for i in range(50):
        trace.packet(1.2 + i / 1000, True, 1 + i * 100, 1001, payload=100)
        trace.packet(1.3 + i / 1000, False, 1001, 101 + i * 100)
    trace.records = [(t // 1000 * 1000, data, wire) for t, data, wire in sorted(trace.records)]
    framed = Trace([(t, ETHERNET_HEADER + data, len(ETHERNET_HEADER) + wire) for t, data, wire in trace.records])
    plain, other = tmp_path / "plain.pcap", tmp_path / "other.snoop"
    plain.write_bytes(framed.bytes().replace(struct.pack("<I", 101), struct.pack("<I", 1), 1))
    subprocess.run(["editcap", "-F", "snoop", plain, other], check=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    results = []
    for source in (plain, other, io.BytesIO(snoop(trace)), io.BytesIO(snoop(trace, datalink=0))):
        with rewindow.open(source) as capture:
            results.append(capture.replay(["tccc"]))
    for result in results:
        assert result.summary == results[0].summary
        assert result.connections == results[0].connections
        assert result.acks.equals(results[0].acks)
    assert (results[0].summary.packets, results[0].summary.link_types) == (103, ["ethernet"])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b"not a capture, only text\n", "neither pcap nor pcapng"),
        (b"snoop\0\0\0" + bytes(20), "snoop version 0 is not known"),
        (b"\xd4\xc3\xb2\xa1\2\0\4\0", "header is cut"),
        (gzip.compress(b"text within", mtime=0), "neither pcap nor pcapng"),
        (b"\x1f\x8bgarbage", "gzip"),
    ],
)
def test_unreadable(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(rewindow.CaptureUnreadable, match=reason) as e:
        packets(path)
    assert str(path) in str(e.value)


def test_missing_and_folder(tmp_path: Path) -> None:
    with pytest.raises(rewindow.CaptureUnreadable, match="No such file"):
        packets(tmp_path / "missing.pcap")
    with pytest.raises(rewindow.CaptureUnreadable, match="Is a directory"):
        packets(tmp_path)


def test_what_cannot_be_read_is_named() -> None:
    """A file that opens, and then fails: nothing is mapped at a process's first page."""
    with pytest.raises(rewindow.CaptureUnreadable, match="/proc/self/mem: Input/output error"):
        packets("/proc/self/mem")


def test_cut_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(SAMPLE.read_bytes()[:300_007])
    with rewindow.open(path) as capture:
        result = capture.replay(["tccc"])
    assert 0 < result.summary.packets < packets(SAMPLE)
    oddity = result.summary.oddities["cut_capture"]
    assert oddity["count"] == 1
    assert 299_000 < oddity["first_offset"] < 300_007
    assert result.acks.num_rows > 1000


def test_unknown_link_type_and_no_tcp(tmp_path: Path) -> None:
    trace = Trace()
    trace.handshake(1.0, 0.1)
    data = bytearray(trace.bytes())
    data[20] = 250
    path = tmp_path / "odd.pcap"
    path.write_bytes(bytes(data))
    with rewindow.open(path) as capture:
        result = capture.replay()
    assert result.summary.oddities["unknown_link_type"]["count"] == 3
    assert result.summary.link_types == ["link_type_250"]
    assert result.connections == []


def test_the_same_algorithm_twice() -> None:
    with rewindow.open(SAMPLE) as capture, pytest.raises(ValueError, match="named twice"):
        capture.stream(["tccc", "tccc"])
    choices = [rewindow.Choice("tccc"), rewindow.Choice("tccc", {"aca_md": "half"}, label="tccc half")]
    with rewindow.open(SAMPLE) as capture:
        result = capture.replay(choices)
    assert not result.acks["tccc.cwnd"].equals(result.acks["tccc half.cwnd"])
