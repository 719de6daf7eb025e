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
# whatever its name: without it, Ray keeps to the loopback on any system
BEYOND_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
LOCAL_OBJECTS = 100 << 20  # bytes: what comes back from cells is small


@contextmanager
def connected(address: str, cpus: int | None = None) -> Iterator[Any]:
    """Connect to a cluster for a while; yield the module ``ray``.

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
def alone() -> Iterator[None]:
    """Let a cluster started here be of no concern to others, for as long as it is there.

    It listens on the loopback only. It has a token that ends with it, unless the user has a say:
    Ray would otherwise write one to the home folder, and from then on ask for it everywhere. Ray
    reads both settings when it is imported: where that has happened, the token is left alone.
    """
    settings = {BEYOND_LOOPBACK: "0"}
    if "ray" not in sys.modules and not any(name in os.environ for name in AUTHENTICATION):
        settings |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex}
    before = {name: os.environ.get(name) for name in settings}
    os.environ |= settings
    constants = sys.modules.get("ray._private.ray_constants")
    reaches = getattr(constants, "ENABLE_RAY_CLUSTER", None)
    if constants is not None:
        constants.ENABLE_RAY_CLUSTER = False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        if constants is not None:
            constants.ENABLE_RAY_CLUSTER = reaches  # type: ignore[attr-defined]


def _refused(address: str, why: str) -> ConnectionError:
    reason = " ".join(why.split()).rstrip(".")[:300]
    return ConnectionError(
        "argument --ray: must be local or the address of a Ray cluster that answers, such as "
        f"10.0.0.1:6379 or ray://10.0.0.1:10001, but got {address!r}: {reason}."
    )
