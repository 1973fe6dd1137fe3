# SPDX-License-Identifier: Apache-2.0
"""What this process has in memory beside the library, which a budget of the process has to hold, too."""
from __future__ import annotations

import os
import threading

from ._library import mapped_file, own_files

# What the process may take beside while a verb runs is not known before; it has half of this or more. Told are whole multiples,
# so that the numbers of two calls, and of two processes that do the same, are mostly the same: a way to fit that one names fits
# in the next.
_ROOM = 8 << 20

_lock = threading.Lock()
_told = 0


def resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _resident_of(files: frozenset[str]) -> int:
    """Of what is mapped from these files: the library's code, which plans reserve anyway."""
    total = 0
    counts = False
    with open("/proc/self/smaps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            if line[0].isupper():  # a field of the mapping above
                if counts and line.startswith("Rss:"):
                    total += int(line.split()[1]) << 10
            else:
                counts = mapped_file(line) in files
    return total


def host_bytes() -> int:
    """With 4 to 12 MiB of room."""
    global _told
    files = own_files()  # it is loaded first
    now = resident_bytes() - _resident_of(files)
    with _lock:
        if not now <= _told <= now + 2 * _ROOM:
            _told = -(-(now + _ROOM // 2) // _ROOM) * _ROOM
        return _told
