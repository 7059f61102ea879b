"""A web page that computes in the browser: a model that goes on with what is typed, and a filter for sound.

An LSTM learns to write rhymes (see char_rnn.py), and a low-pass filter is a loop over samples. Both become WebAssembly:
the folder that this makes is the whole page, and any server of files can serve it. Needs `pip install scanjit[wasm]`.

    python examples/web_page.py                    # makes the folder web_page_site, in half a minute
    python -m http.server -d web_page_site         # then open http://localhost:8000
    python examples/web_page.py book.txt           # a text of yours, as char_rnn.py takes
    python examples/web_page.py --steps small      # all in small, in a moment
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
from char_rnn import build, compile_training, encode, loss_per_character, pieces, read, rhymes

import lasagne_like as lasagne
import scanjit as sj

PAGE = Path(__file__).with_name("web_page")


def learn(text, alphabet, units, steps, batch=32, length=64):
    """A network of characters that has learned from a text, and its last loss."""
    random, numbers = np.random.default_rng(0), encode(text, alphabet)
    lasagne.random.set_rng(np.random.default_rng(1))
    characters, _, _, network = build(len(alphabet), units)
    train = compile_training(*loss_per_character(characters, network), network, rate=0.01)
    for _ in range(steps):
        last = train(*pieces(numbers, random.integers(0, len(numbers) - length, batch), length))
    return network, float(last)


def low_pass():
    """A state-variable filter, as a function of the next samples: the integrators keep their state."""
    x, cutoff, resonance = (
        sj.tensor(("T",), "float32", "x"),
        sj.scalar("cutoff", "float32"),
        sj.scalar("resonance", "float32"),
    )
    g = sj.tan(np.pi * cutoff)  # of the rate

    def step(x, band, low):
        high = (x - (g + 1 / resonance) * band - low) / (1 + g * (g + 1 / resonance))
        middle = g * high + band
        return g * high + middle, g * middle + (g * middle + low), g * middle + low

    zero = sj.constant(0.0, "float32")
    filtered = sj.scan(step, sequences=x, outputs_info=[zero, zero, None], name="low_pass")[2]
    cut = sj.step_function(([x, cutoff, resonance], filtered))
    return cut.stateful(cut.initial_state(np.float32(0), np.float32(0.1), np.float32(1)), steps=True)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Make a web page with a model of characters and a filter.")
    parser.add_argument("text", nargs="?", type=Path, help="the text to learn from; by default rhymes")
    parser.add_argument("--folder", type=Path, default=Path("web_page_site"), help="where the page is made")
    parser.add_argument("--steps", default="1000", help="how many steps of training; 'small' for a quick run")
    options = parser.parse_args(arguments)
    steps, units = (20, 16) if options.steps == "small" else (int(options.steps), 96)

    sj.config.floatX = "float32"
    text = read(options.text, least=1280) if options.text else rhymes(300, np.random.default_rng(0))
    alphabet = sorted(set(text))
    network, loss = learn(text, alphabet, units, steps)
    print(f"learned from {len(text)} characters: {loss:.3f} nats a character")

    writer = lasagne.layers.step_function(network)
    (batch,) = {dim for name in writer.state_types for dim in writer.state_types[name].shape[:1]}
    sj.export_library(writer, options.folder / "chars", "chars", sizes={str(batch): 1}, kind="wasm", overwrite=True)
    sj.export_library(low_pass(), options.folder / "filter", "filter", kind="wasm", overwrite=True)
    (options.folder / "alphabet.json").write_text(json.dumps(alphabet), encoding="utf-8")
    for file in PAGE.iterdir():
        shutil.copy(file, options.folder)
    modules = {path.name: path.stat().st_size for path in options.folder.glob("*/*.wasm")}
    print(", ".join(f"{name}: {size:,} bytes" for name, size in sorted(modules.items())))
    print(f"serve it: python -m http.server -d {options.folder}")
    return network


if __name__ == "__main__":
    main()
