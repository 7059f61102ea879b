// Goes on with a text: the model reads one character a call, and gives the chances of the next one.

export class Writer {
  constructor(model, alphabet) {
    this.model = model;
    this.alphabet = alphabet;
    this.places = new Map(alphabet.map((character, i) => [character, i]));
    this.read = ""; // what the state of the model stands for
    this.model.reset();
  }

  // So many characters that come after a text. `choose` takes the chances of all, and gives the number of one.
  goOn(text, length, choose = likeliest) {
    const known = [...text].filter((character) => this.places.has(character)).join("") || this.alphabet[0];
    if (!known.startsWith(this.read) || known === this.read) this.forget();
    let chances;
    for (const character of known.slice(this.read.length)) chances = this.chances(character);
    this.read = known;
    const before = this.model.save(); // the next call goes on from what was typed, not from what was written
    let written = "";
    while (written.length < length) {
      const next = this.alphabet[choose(chances)];
      written += next;
      chances = this.chances(next);
    }
    this.model.restore(before);
    return written;
  }

  forget() {
    this.model.reset();
    this.read = "";
  }

  chances(character) {
    return this.model.run({ characters: BigInt64Array.of(BigInt(this.places.get(character))) }).output;
  }
}

export function likeliest(chances) {
  return chances.indexOf(Math.max(...chances));
}

// Draw a number by its chance: of a low temperature, likely ones more often.
export function drawn(temperature, random = Math.random) {
  return (chances) => {
    const weights = Array.from(chances, (chance) => chance ** (1 / temperature));
    let left = random() * weights.reduce((a, b) => a + b, 0);
    const found = weights.findIndex((weight) => (left -= weight) < 0);
    return found < 0 ? likeliest(chances) : found;
  };
}
