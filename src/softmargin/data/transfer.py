"""One file from the internet, whole or not at all.

Pooch does the work: it writes to a temporary file beside the target, compares the checksum, and
only then moves the file to its name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

TIMEOUT = 30.0  # seconds without a byte


class TransferError(Exception):
    """A file did not arrive; ``where`` it should have come from, ``why`` it did not."""

    def __init__(self, url: str, why: str, *, is_network: bool) -> None:
        """Keep the address, one phrase, and whether it was the network's fault."""
        super().__init__(why)
        self.where, self.why, self.is_network = urlsplit(url).netloc, why, is_network

    @property
    def advice(self) -> str:
        """What the user may do."""
        return "connect to the internet and try again" if self.is_network else "try again later"


def transfer(url: str, target: Path, checksum: str | None, *, progress: bool, what: str) -> None:
    """Download a file; ``what`` is the data set that it belongs to."""
    try:
        import pooch
        import requests
    except ImportError:
        raise ImportError(
            f'Downloading {what} needs pooch, not installed: pip install "softmargin[lab]".'
        ) from None
    pooch.get_logger().setLevel("ERROR")
    bar = Bar(target.name) if progress else None
    downloader = pooch.HTTPDownloader(progressbar=bar or False, timeout=TIMEOUT)
    try:
        pooch.retrieve(url, checksum, target.name, target.parent, None, downloader)
    except requests.exceptions.RequestException as error:
        raise TransferError(url, _reason(error), is_network=True) from None
    except ValueError:
        why = f"{target.name} arrived damaged: its checksum is not {checksum}"
        raise TransferError(url, why, is_network=False) from None
    finally:
        if bar is not None:
            bar.close()


def _reason(error: Exception) -> str:
    """Return one phrase for a failed request."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code}"
    phrases = {
        "ConnectTimeout": "no answer",
        "ReadTimeout": "the server stopped answering",
        "ChunkedEncodingError": "the connection was cut",
        "ConnectionError": "no connection",
    }
    return phrases.get(type(error).__name__, type(error).__name__)


class Bar:
    """A progress bar for Pooch, drawn by Rich on standard error."""

    def __init__(self, title: str) -> None:
        """Start to draw."""
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self.total: int | None = None
        self._progress: Any = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task(title, total=None)
        self._progress.start()

    def update(self, count: int) -> None:
        """Go on by this many bytes."""
        self._progress.update(self._task, total=self.total or None, advance=count)

    def reset(self) -> None:
        """Go back to none."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Stop drawing."""
        self._progress.stop()
