"""libbpf, the library that loads eBPF objects: the few functions of its stable C interface that are used here."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import cffi

from kernel.errors import LoadFailed

SHARED_LIBRARY = "libbpf.so.1"
_LOG_BYTES = 1 << 24
_FUNCTION = 12  # BTF_KIND_FUNC

_ffi = cffi.FFI()
_ffi.cdef("""
struct bpf_object_open_opts {
    size_t sz;
    const char *object_name;
    bool relaxed_maps;
    const char *pin_root_path;
    uint32_t unused;
    const char *kconfig;
    const char *btf_custom_path;
    char *kernel_log_buf;
    size_t kernel_log_size;
    uint32_t kernel_log_level;
};
void *libbpf_set_print(void *print);
void *bpf_object__open_file(const char *path, const struct bpf_object_open_opts *opts);
int bpf_object__load(void *object);
void bpf_object__close(void *object);
void *bpf_object__find_map_by_name(const void *object, const char *name);
int bpf_map__fd(const void *map);
int bpf_map__set_max_entries(void *map, uint32_t max_entries);
int bpf_map__set_initial_value(void *map, const void *data, size_t size);
int bpf_map__pin(void *map, const char *path);
void *bpf_map__attach_struct_ops(const void *map);
void *bpf_object__find_program_by_name(const void *object, const char *name);
void *bpf_program__attach(const void *program);
void bpf_link__disconnect(void *link);
int bpf_link__destroy(void *link);
int bpf_obj_get(const char *path);
int bpf_prog_get_next_id(uint32_t id, uint32_t *next_id);
int bpf_prog_get_fd_by_id(uint32_t id);
int bpf_obj_get_info_by_fd(int fd, void *info, uint32_t *bytes);
int bpf_map_update_elem(int fd, const void *key, const void *value, uint64_t flags);
int bpf_map_lookup_elem(int fd, const void *key, void *value);
int bpf_map_delete_elem(int fd, const void *key);
int bpf_map_get_next_key(int fd, const void *key, void *next_key);
void *btf__load_vmlinux_btf(void);
int32_t btf__find_by_name_kind(const void *btf, const char *name, uint32_t kind);
void btf__free(void *btf);
void *ring_buffer__new(int fd, int (*sample)(void *context, void *data, size_t size), void *context, const void *opts);
int ring_buffer__poll(void *buffer, int timeout_ms);
void ring_buffer__free(void *buffer);
""")


@functools.cache
def _library() -> Any:
    lib = _ffi.dlopen(SHARED_LIBRARY)
    lib.libbpf_set_print(_ffi.NULL)  # errors are told by this package
    return lib


def is_there() -> bool:
    try:
        _library()
    except OSError:
        return False
    return True


def kernel_functions(names: tuple[str, ...]) -> dict[str, bool]:
    """Which of them the running kernel's type information has."""
    lib = _library()
    btf = lib.btf__load_vmlinux_btf()
    if not btf:
        return dict.fromkeys(names, False)
    try:
        return {name: lib.btf__find_by_name_kind(btf, name.encode(), _FUNCTION) > 0 for name in names}
    finally:
        lib.btf__free(btf)


_PROGRAM_INFO = struct.Struct("=64x16s112xQQ")
"""The kernel's struct bpf_prog_info, as far as is read: name, run_time_ns, run_cnt."""


def program_costs(prefix: str) -> dict[str, tuple[int, int]]:
    """Nanoseconds and calls of each loaded program whose name begins so, without the prefix; counted while
    kernel.bpf_stats_enabled is 1."""
    lib, found = _library(), dict[str, tuple[int, int]]()
    number, size, info = _ffi.new("uint32_t *"), _ffi.new("uint32_t *"), _ffi.new("char[]", _PROGRAM_INFO.size)
    while lib.bpf_prog_get_next_id(number[0], number) == 0:
        fd = lib.bpf_prog_get_fd_by_id(number[0])
        if fd < 0:
            continue  # it was unloaded meanwhile
        try:
            _ffi.memmove(info, bytes(_PROGRAM_INFO.size), _PROGRAM_INFO.size)
            size[0] = _PROGRAM_INFO.size
            _checked(lib.bpf_obj_get_info_by_fd(fd, info, size), "a program is not described")
        finally:
            os.close(fd)
        name, time_ns, calls = _PROGRAM_INFO.unpack(bytes(_ffi.buffer(info)))
        text = name.rstrip(b"\0").decode()
        if text.startswith(prefix):
            found[text.removeprefix(prefix)] = (time_ns, calls)
    return found


def _checked(status: int, what: str) -> int:
    if status < 0:
        raise LoadFailed(f"{what}: {os.strerror(-status) if -status in errno.errorcode else f'error {-status}'}")
    return status


class Map:
    """A map of eBPF, by its file descriptor."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    @contextlib.contextmanager
    def pinned(cls, path: Path) -> Iterator[Map]:
        """FileNotFoundError where nothing is pinned there."""
        fd = _library().bpf_obj_get(os.fsencode(path))
        if fd < 0:
            raise OSError(-fd, os.strerror(-fd), str(path))
        try:
            yield cls(fd)
        finally:
            os.close(fd)

    def read(self, key: bytes, size: int) -> bytes | None:
        """None: the key is not there."""
        value = _ffi.new("char[]", size)
        status = _library().bpf_map_lookup_elem(self.fd, key, value)
        if status == -errno.ENOENT:
            return None
        _checked(status, "a map cannot be read")
        return bytes(_ffi.buffer(value, size))

    def write(self, key: bytes | None, value: bytes) -> None:
        """key: None for a queue."""
        status = _library().bpf_map_update_elem(self.fd, _ffi.NULL if key is None else key, value, 0)
        _checked(status, "a map cannot be written")

    def delete(self, key: bytes) -> bool:
        """False: it was not there."""
        status = _library().bpf_map_delete_elem(self.fd, key)
        if status == -errno.ENOENT:
            return False
        _checked(status, "an entry cannot be deleted")
        return True

    def keys(self, size: int) -> Iterator[bytes]:
        before, found = _ffi.NULL, _ffi.new("char[]", size)
        while _library().bpf_map_get_next_key(self.fd, before, found) == 0:
            yield bytes(_ffi.buffer(found, size))
            before = _ffi.new("char[]", bytes(_ffi.buffer(found, size)))

    def samples(self, take: Callable[[bytes], None]) -> Samples:
        """Of a ring buffer."""
        return Samples(self.fd, take)


class Samples:
    """What programs put into a ring buffer, in their order."""

    def __init__(self, fd: int, take: Callable[[bytes], None]) -> None:
        def sample(_: Any, data: Any, size: int) -> int:
            take(bytes(_ffi.buffer(data, size)))
            return 0

        self._sample = _ffi.callback("int(void *, void *, size_t)", sample)
        self._buffer = _library().ring_buffer__new(fd, self._sample, _ffi.NULL, _ffi.NULL)
        if not self._buffer:
            raise LoadFailed("the ring buffer cannot be read")

    def poll(self, timeout_s: float) -> int:
        """How many were taken, after at most that time without any."""
        status: int = _library().ring_buffer__poll(self._buffer, int(timeout_s * 1000))
        return 0 if status == -errno.EINTR else _checked(status, "the ring buffer cannot be read")

    def close(self) -> None:
        _library().ring_buffer__free(self._buffer)


class Object:
    """An object file, opened, then loaded."""

    def __init__(self, path: Path) -> None:
        self._log = _ffi.new("char[]", _LOG_BYTES)
        opts = _ffi.new("struct bpf_object_open_opts *")
        opts.sz = _ffi.sizeof("struct bpf_object_open_opts")
        opts.kernel_log_buf, opts.kernel_log_size = self._log, _LOG_BYTES
        self._links: list[Any] = []
        self._object = _library().bpf_object__open_file(os.fsencode(path), opts)
        if not self._object:
            raise LoadFailed(f"{path}: {os.strerror(_ffi.errno)}")

    def __enter__(self) -> Object:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """What is attached is detached."""
        self.detach()
        _library().bpf_object__close(self._object)

    def _map(self, name: str) -> Any:
        found = _library().bpf_object__find_map_by_name(self._object, name.encode())
        if not found:
            raise LoadFailed(f"the object has no map {name}")
        return found

    def entries(self, name: str, count: int) -> None:
        """How many a map shall have; before `load`."""
        _checked(_library().bpf_map__set_max_entries(self._map(name), count), f"map {name}")

    def content(self, name: str, value: bytes) -> None:
        """Of a section of constants; before `load`."""
        _checked(_library().bpf_map__set_initial_value(self._map(name), value, len(value)), f"section {name}")

    def load(self) -> None:
        """LoadFailed with the verifier's last words."""
        status = _library().bpf_object__load(self._object)
        if status < 0:
            lines = _ffi.string(self._log).decode(errors="replace").strip().splitlines()
            said = [line for line in lines if not line.startswith("processed ")]
            raise LoadFailed(
                f"the kernel refuses it ({os.strerror(-status)}): {said[-1] if said else 'no reason given'}"
            )

    def map(self, name: str) -> Map:
        """After `load`; as long as the object is open."""
        return Map(_library().bpf_map__fd(self._map(name)))

    def attach(self, name: str) -> None:
        """A program to what its section names, until `detach`, `close` or the end of this process; after `load`."""
        program = _library().bpf_object__find_program_by_name(self._object, name.encode())
        link = _library().bpf_program__attach(program) if program else _ffi.NULL
        if not link:
            raise LoadFailed(f"program {name} is not attached: {os.strerror(_ffi.errno)}")
        self._links.append(link)

    def detach(self) -> None:
        while self._links:
            _library().bpf_link__destroy(self._links.pop())

    def pin(self, name: str, path: Path) -> None:
        _checked(_library().bpf_map__pin(self._map(name), os.fsencode(path)), f"{path} cannot be made")

    def register(self, name: str) -> None:
        """The operations of that name, until they are deleted from their map."""
        link = _library().bpf_map__attach_struct_ops(self._map(name))
        if not link:
            raise LoadFailed(f"the kernel does not register it: {os.strerror(_ffi.errno)}")
        _library().bpf_link__disconnect(link)
        _library().bpf_link__destroy(link)
