"""Driving a real Chromium: its debugging protocol over two pipes, which needs no package."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# Chromium reads commands from descriptor 3 and answers on descriptor 4
MOVE_PIPES = """
import os, sys
for place, own in ((3, sys.argv[1]), (4, sys.argv[2])):
    os.dup2(int(own), place)
os.execv(sys.argv[3], sys.argv[3:])
"""
KEYS = {"Enter": 13, "Tab": 9, "ArrowRight": 39, "ArrowDown": 40, "End": 35, "Escape": 27}


class Browser:
    """One tab: what it is told to do, and what it reports."""

    def __init__(self, commands: int, answers: int):
        self.commands, self.answers = commands, answers
        self.rest, self.last, self.events = b"", 0, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    session = None

    def call(self, method, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.last:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self, timeout=60.0):
        """Return the next message; events are kept."""
        until = time.monotonic() + timeout
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.answers], [], [], until - time.monotonic())
            assert ready, "Chromium does not answer."
            found = os.read(self.answers, 1 << 20)
            assert found, "Chromium has ended."
            self.rest += found
        text, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(text)
        if "method" in message:
            self.events.append((message["method"], message["params"]))
        return message

    def open(self, path: Path, width=1280, height=900, dark=False):
        """Open a file and return the seconds until its load event."""
        self.size(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        started = time.monotonic()
        self.call("Page.navigate", url=path.as_uri())
        while "Page.loadEventFired" not in dict(self.events):
            self._next()
        return time.monotonic() - started

    def size(self, width, height):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def run(self, script):
        """Return the value of an expression, after two frames have been drawn."""
        wait = "await new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)));"
        found = self.call(
            "Runtime.evaluate",
            expression=f"(async () => {{ {wait} return ({script}); }})()",
            awaitPromise=True,
            returnByValue=True,
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script, seconds=20.0):
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.05)

    def press(self, key):
        text = {"text": "\r"} if key == "Enter" else {}
        code = KEYS[key]
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text
            )

    def _middle(self, selector):
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        return {"x": box[0], "y": box[1]}

    def click(self, selector):
        place = self._middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def hover(self, selector):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **self._middle(selector))

    def screenshot(self, path: Path, whole=False):
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def complaints(self):
        """Return what the console and the log have said, and exceptions."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event for event in self.events if event[0] in kinds]

    def requests(self):
        """Return the addresses that were asked for."""
        return [
            what["request"]["url"]
            for kind, what in self.events
            if kind == "Network.requestWillBeSent"
        ]


@contextmanager
def browser(profile: Path):
    """Start a Chromium of our own and end it."""
    from_us, to_us = os.pipe(), os.pipe()
    flags = [*FLAGS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        [sys.executable, "-c", MOVE_PIPES, str(from_us[0]), str(to_us[1]), CHROMIUM, *flags],
        pass_fds=(from_us[0], to_us[1]),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(from_us[0])
    os.close(to_us[1])
    try:
        yield Browser(from_us[1], to_us[0])
    finally:
        os.close(from_us[1])  # Chromium ends when nobody can tell it anything
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(to_us[0])
