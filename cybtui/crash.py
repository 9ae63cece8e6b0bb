"""Crash reports: what an unexpected failure leaves behind for whoever repairs it."""

from __future__ import annotations

import platform
import sys
import tempfile
import time
import traceback
from pathlib import Path

import platformdirs


def write_crash_report(error: BaseException, arguments: list[str], version: str) -> Path | None:
    """Writes the traceback to the platform's log folder, else to the temporary folder; None when neither can be written."""
    text = "\n".join(
        [
            f"cybtui {version}, Python {platform.python_version()}, {platform.platform()}",
            f"arguments: {arguments}",
            "",
            "".join(traceback.format_exception(error)),
        ]
    )
    name = time.strftime("crash-%Y%m%d-%H%M%S-")
    for folder in (Path(platformdirs.user_log_dir("cybtui", appauthor=False)), Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor, path = tempfile.mkstemp(".txt", name, folder)
            with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(text)
            return Path(path)
        except OSError:
            continue
    print(text, file=sys.stderr)
    return None
