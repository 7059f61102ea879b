"""The example page: a model that goes on with a text, and a filter with a plot, in Node and in a browser."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from re import findall
from typing import Any

import numpy as np
import pytest
from scipy.signal import lfilter

import lasagne_like as lasagne
import scanjit as sj
from tests.library.pages import linked, seen, told

EXAMPLES = Path(__file__).parents[2] / "examples"
CUTOFF, RESONANCE = 800 / 48000, 0.7


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The folder of the page, and the network that it was made of."""
    folder, float_x = tmp_path_factory.mktemp("page"), sj.config.floatX
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        network = runpy.run_path(str(EXAMPLES / "web_page.py"))["main"](["--steps", "small", "--folder", str(folder)])
    yield folder, network
    sj.config.floatX = float_x
    lasagne.random.set_rng(np.random)


def goes_on(network: Any, alphabet: list[str], text: str, length: int) -> str:
    """What the network writes behind a text, in Python: always the likeliest character."""
    step = lasagne.layers.step_function(network)
    state = None
    for i in range(len(text) + length - 1):
        row = np.array([alphabet.index(text[i])])
        chances, state = step(row) if state is None else step(row, state)
        if i + 1 == len(text):
            text += alphabet[int(chances[0].argmax())]
    return text[-length:]


def low_passed(x: np.ndarray, cutoff: float, resonance: float) -> np.ndarray:
    """The same filter by its transfer function: the analog one under the bilinear transform."""
    g, k = np.tan(np.pi * cutoff), 1 / resonance
    b = np.array([g * g, 2 * g * g, g * g])
    a = np.array([1 + g * k + g * g, 2 * g * g - 2, 1 - g * k + g * g])
    return np.asarray(lfilter(b / a[0], a / a[0], x))


@pytest.mark.slow
@linked
def test_the_page_in_node(page: Any) -> None:
    folder, network = page
    found = told(
        folder,
        """
        import { readFile } from "node:fs/promises";
        import { load as loadCharacters } from "./chars/chars.js";
        import { load as loadFilter } from "./filter/filter.js";
        import { filtered, made } from "./sound.js";
        import { drawn, Writer } from "./writer.js";
        const writer = new Writer(await loadCharacters(), JSON.parse(await readFile("alphabet.json")));
        const first = writer.goOn("There was a ", 40);
        const longer = writer.goOn("There was a c", 20);
        const other = writer.goOn("the ", 20);
        const again = writer.goOn("There \u2603was a ", 40); // a character that it never saw is left out
        const cold = writer.goOn("There was a ", 40, drawn(0.01, () => 0.5));
        const counts = [0, 0, 0];
        const draw = drawn(1);
        for (let i = 0; i < 3000; i++) counts[draw(Float32Array.of(0.5, 0.3, 0.2))]++;
        const signal = made(2048, 48000);
        const y = filtered(await loadFilter(), signal, given[0][0], given[0][1]);
        tell({ first, longer, other, again, cold, counts, signal: [...signal], y: [...y] });
        """,
        np.array([CUTOFF, RESONANCE]),
    )
    alphabet = json.loads((folder / "alphabet.json").read_text())
    for key, text, length in (("first", "There was a ", 40), ("longer", "There was a c", 20), ("other", "the ", 20)):
        assert found[key] == goes_on(network, alphabet, text, length)
    assert found["again"] == found["first"] == found["cold"]
    np.testing.assert_allclose(np.array(found["counts"]) / 3000, [0.5, 0.3, 0.2], atol=0.05)
    signal = np.array(found["signal"])
    assert signal.std() > 0.3
    np.testing.assert_allclose(found["y"], low_passed(signal, CUTOFF, RESONANCE), atol=2e-5)


@linked
@pytest.mark.slow
def test_the_page_in_a_browser(page: Any) -> None:
    folder, network = page
    found = seen(
        folder,
        """
        const element = (name) => document.getElementById(name);
        const drawn = () => {
          const { width, height } = element("plot");
          const pixels = element("plot").getContext("2d").getImageData(0, 0, width, height).data;
          return [...new Uint32Array(pixels.buffer)].filter((pixel) => pixel !== 0).length;
        };
        const report = {};
        const change = (name, value) => {
          element(name).value = value;
          element(name).dispatchEvent(new Event("input"));
        };
        function look() {
          if (element("told").textContent === "...") return false; // still loading
          if (!report.made) {
            report.made = element("told").textContent;
            report.drawn = drawn();
            report.written = element("written").textContent;
            change("typed", "the ");
            report.other = element("written").textContent;
            change("cutoff", 300);
            report.lower = element("told").textContent;
            report.hertz = element("hertz").textContent;
            element("microphone").click();
          }
          report.microphone = element("told").textContent;
          return !report.microphone.startsWith("made");
        }
        """,
        "look()",
        "report",
    )
    alphabet = json.loads((folder / "alphabet.json").read_text())
    assert found["written"] == goes_on(network, alphabet, "There was a ", 300)
    assert found["other"] == goes_on(network, alphabet, "the ", 300)
    assert found["drawn"] > 2000 and found["hertz"] == "300"
    (before, behind), (_, lower) = (
        [float(each) for each in findall(r"\d\.\d+", found[key])] for key in ("made", "lower")
    )
    assert before > behind > lower > 0.1
    assert found["microphone"].startswith("microphone: root mean square"), found["microphone"]
