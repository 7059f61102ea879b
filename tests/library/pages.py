"""Runs exported modules in Node, and pages in headless Chromium."""

from __future__ import annotations

import functools
import http.server
import json
import queue
import shutil
import subprocess
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.scripts import printed

linked = pytest.mark.skipif(
    find_spec("ziglang") is None or shutil.which("node") is None, reason="needs the package ziglang, and Node"
)
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--autoplay-policy=no-user-gesture-required",
    "--use-fake-device-for-media-stream",  # a microphone that beeps, which nobody is asked to allow
    "--use-fake-ui-for-media-stream",
]
_REPORT = """
<script type="module">
  $SCRIPT
  const tell = (seen) => fetch("/seen", { method: "POST", body: JSON.stringify(seen) });
  addEventListener("error", (event) => tell({ error: event.message }));
  addEventListener("unhandledrejection", (event) => tell({ error: String(event.reason) }));
  const timer = setInterval(() => {
    if (!($READY)) return;
    clearInterval(timer);
    tell($SEEN);
  }, 50);
</script>
"""


def told(folder: Path, script: str, *arrays: np.ndarray) -> Any:
    """What a script in a folder tells, as JSON. It finds the arrays in `given`, as lists."""
    given = json.dumps([array.ravel().tolist() for array in arrays])
    (folder / "script.mjs").write_text(
        f"const given = {given};\nconst tell = (x) => console.log(JSON.stringify(x));\n{script}"
    )
    return json.loads(printed("node", "script.mjs", folder=folder))


def seen(folder: Path, script: str, ready: str, what: str) -> Any:
    """What a browser sees of the page in a folder: `script` runs in the page, and tells `what` when `ready` is true."""
    if BROWSER is None:
        pytest.skip("needs Chromium")
    reports: queue.Queue[Any] = queue.Queue()
    script = _REPORT.replace("$SCRIPT", script).replace("$READY", ready).replace("$SEEN", what)
    handler = functools.partial(Handler, folder, script, reports)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = f"http://127.0.0.1:{server.server_port}/index.html"
        command = [BROWSER, *FLAGS, f"--user-data-dir={folder / 'profile'}", "--remote-debugging-port=0", page]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return reports.get(timeout=90)
        finally:
            browser.terminate()
            browser.wait(30)
            server.shutdown()


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, its page with a script at the end, and takes what the script tells. Says nothing of it."""

    def __init__(self, folder: Path, script: str, reports: queue.Queue[Any], *args: Any) -> None:
        self.script, self.reports = script, reports
        super().__init__(*args, directory=str(folder))

    def do_GET(self) -> None:
        if self.path != "/index.html":
            return super().do_GET()
        page = (Path(self.directory) / "index.html").read_text(encoding="utf-8") + self.script
        self._answer(page.encode(), "text/html")

    def do_POST(self) -> None:
        self.reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._answer(b"", "text/plain")

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *told: object) -> None:
        pass
