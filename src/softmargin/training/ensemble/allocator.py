"""The C library's allocator, told to keep what is freed."""

from __future__ import annotations

import ctypes
import sys

# glibc's names for its settings, and what they are set to
TRIM, MMAP = -1, -3
KEPT = 2**30  # bytes


def keep_freed_memory() -> None:
    """Ask glibc to keep memory that is freed instead of returning it to the system.

    Tensors of a megabyte come and go at every step. By default each is mapped and unmapped, and
    touching fresh pages takes longer than computing on them: training many small networks is
    almost twice as fast without. Elsewhere this does nothing.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(MMAP, KEPT)
        libc.mallopt(TRIM, KEPT)
    except (OSError, AttributeError):  # another C library
        return
