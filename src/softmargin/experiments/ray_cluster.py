"""Finding a Ray cluster, or starting one here; saying in one sentence where there is none."""

from __future__ import annotations

import logging
import os
import socket
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

LOCAL = "local"
ANSWER_WITHIN = 5.0  # seconds, for a port
HEALTHY_WITHIN = 10.0  # seconds, for the cluster behind it
TRIES = 5
AUTHENTICATION = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
LOCAL_OBJECTS = 100 << 20  # bytes: what comes back from cells is small


@contextmanager
def connected(address: str, cpus: int | None = None) -> Iterator[Any]:
    """Connect to a cluster for a while; yield the module ``ray``.

    Args:
        address: ``"host:port"``, ``"ray://host:port"``, or ``"local"`` to start one here.
        cpus: how many tasks at a time a local one takes, by default one per core.

    Raises:
        ImportError: where Ray is not installed.
        ConnectionError: where no cluster answers, in one sentence.
    """
    with own_token() if address == LOCAL else nullcontext():
        ray = require_ray()
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address == LOCAL:
            options |= {"num_cpus": cpus or os.cpu_count(), "include_dashboard": False}
            options |= {"object_store_memory": LOCAL_OBJECTS}
        else:
            check_answers(address)
        try:
            _init(ray, address, options)
        except Exception as error:  # each kind of address fails in ways of its own
            raise _refused(address, f"{type(error).__name__}: {error}") from None
        try:
            yield ray
        finally:
            ray.shutdown()


def _init(ray: Any, address: str, options: dict[str, Any]) -> None:
    """Connect; where the server of ``ray://`` fails to start a process for us, ask again.

    It forks among threads, which now and then hangs until it gives up.
    """
    for left in reversed(range(TRIES)):
        try:
            ray.init(address=address, **options)
            return
        except ConnectionAbortedError:
            if not left:
                raise
            ray.shutdown()


def require_ray() -> Any:
    """Return the module ``ray``, or say what to install."""
    # no word to anyone about what is run here, unless the user wants that
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import grpc  # noqa: F401
        import ray
        import ray.exceptions
    except ImportError:
        raise ImportError(
            '--ray needs ray, which is missing: pip install "softmargin[lab,ray]".'
        ) from None
    return ray


def check_answers(address: str) -> None:
    """Raise ``ConnectionError`` where nothing, or no Ray, answers at an address in time."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (host and colon and port.isdigit() and int(port) < 1 << 16):
        raise _refused(address, "it is not of the form host:port")
    try:
        socket.create_connection((host, int(port)), ANSWER_WITHIN).close()
    except OSError as error:
        raise _refused(address, str(error.strerror or error)) from None
    import grpc

    # Ray itself would notice much later that what answers does not speak its protocol
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=HEALTHY_WITHIN)
        except grpc.FutureTimeoutError:
            raise _refused(address, "what answers there is no Ray cluster") from None


@contextmanager
def own_token() -> Iterator[None]:
    """Let a cluster started here have a token that ends with it, unless the user has a say.

    Ray would otherwise write one to the home folder, and from then on ask for it everywhere. It
    reads these settings when it is imported: where that has happened, they are left alone.
    """
    if "ray" in sys.modules or any(name in os.environ for name in AUTHENTICATION):
        yield
        return
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex}
    try:
        yield
    finally:
        for name in AUTHENTICATION:
            os.environ.pop(name, None)


def _refused(address: str, why: str) -> ConnectionError:
    reason = " ".join(why.split()).rstrip(".")[:300]
    return ConnectionError(
        "argument --ray: must be local or the address of a Ray cluster that answers, such as "
        f"10.0.0.1:6379 or ray://10.0.0.1:10001, but got {address!r}: {reason}."
    )
