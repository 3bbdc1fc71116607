"""Writes the C source of the extension. The public header, without its preprocessor lines, is the cdef."""

import sys
from pathlib import Path

from cffi import FFI


def main(header: str, output: str) -> None:
    lines = Path(header).read_text().splitlines()
    ffi = FFI()
    ffi.cdef("\n".join(line for line in lines if not line.startswith("#")))
    ffi.set_source("rewindow._core", '#include "rewindow.h"')
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
