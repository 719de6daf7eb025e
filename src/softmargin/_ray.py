"""Connecting to a Ray cluster, or starting one here."""

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
CONNECTIONS = 5  # tries
RETRIES = 3  # of a task whose worker has died
LOCAL_OBJECTS = 100 << 20  # bytes: what comes back from tasks is small
AUTHENTICATION = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
# despite its name: without it, Ray keeps to the loopback on any system
BEYOND_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


@contextmanager
def connected(address: str, cpus: int | None = None) -> Iterator[Any]:
    """Connect to a cluster for a while; yield the module ``ray``.

    Where the server of ``ray://`` fails to start a process for us, it is asked again: it forks
    among threads, which now and then hangs until it gives up.

    Args:
        address: ``"host:port"``, ``"ray://host:port"``, or ``"local"`` to start one here.
        cpus: how many cores a local one has to give, by default those of this machine.

    Raises:
        ImportError: where Ray is not installed.
        ConnectionError: where no cluster answers, in one sentence.
    """
    with alone() if address == LOCAL else nullcontext():
        ray = require_ray()
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address == LOCAL:
            options |= {"num_cpus": cpus or os.cpu_count(), "include_dashboard": False}
            options |= {"object_store_memory": LOCAL_OBJECTS}
        else:
            check_answers(address)
        for left in reversed(range(CONNECTIONS)):
            try:
                ray.init(address=address, **options)
                break
            except Exception as error:  # each kind of address fails in ways of its own
                if not (left and isinstance(error, ConnectionAbortedError)):
                    raise _refused(address, f"{type(error).__name__}: {error}") from None
                ray.shutdown()
        try:
            yield ray
        finally:
            ray.shutdown()


def require_ray() -> Any:
    """Return the module ``ray``, or say what to install."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry unless the user wants it
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
def alone() -> Iterator[None]:
    """Keep a cluster started here to this machine, and leave nothing of it behind.

    It listens on the loopback only. It has a token that ends with it, unless the user has set one:
    Ray would otherwise write a token to the home folder, and from then on ask for it everywhere.
    Ray reads both settings when it is imported; if that has happened, the token is left alone.
    """
    settings = {BEYOND_LOOPBACK: "0"}
    if "ray" not in sys.modules and not any(name in os.environ for name in AUTHENTICATION):
        settings |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex}
    before = {name: os.environ.get(name) for name in settings}
    os.environ |= settings
    constants: Any = sys.modules.get("ray._private.ray_constants")
    reaches = getattr(constants, "ENABLE_RAY_CLUSTER", None)
    if constants is not None:
        constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        if constants is not None:
            constants.ENABLE_RAY_CLUSTER = reaches


def _refused(address: str, why: str) -> ConnectionError:
    reason = " ".join(why.split()).rstrip(".")[:300]
    return ConnectionError(
        "argument --ray: must be local or the address of a Ray cluster that answers, such as "
        f"10.0.0.1:6379 or ray://10.0.0.1:10001, but got {address!r}: {reason}."
    )
