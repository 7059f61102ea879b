"""What VS Code asks a language server while somebody writes a script: pyright's server answers, over a pipe.

The scripts lie beside an environment in which scanjit is installed as `pip install -e .` does it: by a `.pth` file.
"""

import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.skipif(not find_spec("pyright"), reason="pyright is not installed")

SCRIPT = """\
import numpy as np
import scanjit as sj
import lasagne_like as ll


def step(x: sj.Node, h: sj.Node) -> sj.Node:
    return sj.tanh(x + h)


xs = sj.matrix("xs")
hs = sj.scan(step, sequences=xs, outputs_info=xs[0])


@sj.jit
def smooth(series: sj.TensorLike, rate: float = 0.1) -> sj.Node:
    return sj.as_tensor(series) * rate


layer = ll.layers.LSTMLayer(ll.layers.InputLayer((None, None, 4)), num_units=8)
wrong = sj.no_such_function(xs)
hs.mea
smooth(
ll.layers.LSTMLayer(
"""
LINES = SCRIPT.splitlines()


class Server:
    """A language server that has one script open."""

    def __init__(self, folder: Path, python: Path) -> None:
        command = [sys.executable, "-m", "pyright.langserver", "--stdio"]
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.python = python
        self.number = 0
        self.problems: list[dict[str, Any]] | None = None
        self.uri = (folder / "script.py").as_uri()
        root = {"rootUri": folder.as_uri(), "workspaceFolders": [{"uri": folder.as_uri(), "name": "project"}]}
        shown = {"contentFormat": ["markdown"], "signatureInformation": {"documentationFormat": ["markdown"]}}
        text = {"hover": shown, "signatureHelp": shown, "publishDiagnostics": {}}
        can = {"textDocument": text, "workspace": {"configuration": True, "workspaceFolders": True}}
        self.ask("initialize", {"processId": None, **root, "capabilities": can})
        self.send({"method": "initialized", "params": {}})
        document = {"uri": self.uri, "languageId": "python", "version": 1, "text": SCRIPT}
        self.send({"method": "textDocument/didOpen", "params": {"textDocument": document}})

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        text = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """The next message. What the server asks us is answered on the way, and problems are kept."""
        assert self.process.stdout
        length = 0
        while line := self.process.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        assert length, "the server has ended"
        message: dict[str, Any] = json.loads(self.process.stdout.read(length))
        if message.get("method") == "workspace/configuration":
            settings = {"python": {"pythonPath": str(self.python)}, "python.analysis": {"typeCheckingMode": "standard"}}
            result = [settings.get(item["section"]) for item in message["params"]["items"]]
            self.send({"id": message["id"], "result": result})
        elif "id" in message and "method" in message:
            self.send({"id": message["id"], "result": None})
        elif message.get("method") == "textDocument/publishDiagnostics":
            self.problems = message["params"]["diagnostics"]
        return message

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        while (message := self.receive()).get("id") != self.number or "method" in message:
            pass
        assert "error" not in message, message
        return message["result"]

    def at(self, method: str, line: str, after: str) -> Any:
        """The answer to a question about the place behind the text `after`, in the line that begins with `line`."""
        number = next(i for i, text in enumerate(LINES) if text.startswith(line))
        place = {"line": number, "character": LINES[number].index(after) + len(after)}
        return self.ask(f"textDocument/{method}", {"textDocument": {"uri": self.uri}, "position": place})

    def hover(self, line: str, after: str) -> str:
        return str(self.at("hover", line, after)["contents"]["value"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("project")
    environment = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    packages = sysconfig.get_path("purelib", vars={"base": str(environment), "platbase": str(environment)})
    installed = [str(ROOT), sysconfig.get_path("purelib")]
    (Path(packages) / "__editable__.scanjit.pth").write_text("\n".join(installed) + "\n", encoding="utf-8")
    (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    server = Server(folder, python)
    yield server
    server.ask("shutdown", {})
    server.send({"method": "exit"})
    server.process.communicate(timeout=60)


def test_imports_are_found_and_a_wrong_name_is_marked(server: Server) -> None:
    while not server.problems:
        server.receive()
    found = [problem["message"] for problem in server.problems]
    assert not [message for message in found if "could not be resolved" in message]
    assert [message for message in found if "no_such_function" in message]


@pytest.mark.parametrize(
    ("line", "after", "text"),
    [
        ("hs = ", "h", "hs: Node"),
        ("xs = ", "sj.mat", "A new symbol"),
        ("hs = ", "sj.sc", "sequences"),
        ("layer = ", "LSTML", "num_units"),
        ("smooth(", "smoo", "series: TensorLike, rate: float = 0.1"),
    ],
)
def test_hover_shows_types_and_what_names_are_for(server: Server, line: str, after: str, text: str) -> None:
    assert text in server.hover(line, after)


def test_the_result_of_a_scan_has_its_methods_completed(server: Server) -> None:
    found = server.at("completion", "hs.mea", "hs.")["items"]
    assert {item["label"] for item in found} >= {"sum", "mean", "reshape", "astype", "T", "shape", "dtype"}


@pytest.mark.parametrize(
    ("line", "wanted"),
    [("smooth(", ["series: TensorLike", "rate: float = 0.1"]), ("ll.layers.LSTMLayer(", ["num_units"])],
)
def test_parameters_are_shown_while_a_call_is_written(server: Server, line: str, wanted: list[str]) -> None:
    (signature,) = server.at("signatureHelp", line, line)["signatures"]
    assert all(text in signature["label"] for text in wanted), signature["label"]


@pytest.mark.slow
def test_the_definition_is_that_of_the_checkout(server: Server) -> None:
    (place,) = server.at("definition", "hs = ", "sj.sc")
    assert place["uri"].startswith(ROOT.as_uri())
