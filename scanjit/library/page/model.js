// $NAME: a function of Python's, exported by scanjit. Written by a program: export it again instead of editing it.
//
//   import { load } from "./$NAME.js";
//   const model = await load();
//   const outputs = model.run({ ... });

const FACE = $FACE;

const mod = (a, b) => ((a % b) + b) % b;
const product = (shape) => shape.reduce((a, b) => a * b, 1);
const up = (address, multiple) => Math.ceil(address / multiple) * multiple;

// What a failed call throws. `status` is the number that the function gave.
export class ModelError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.name = "ModelError";
    this.status = status;
  }
}

// A model, from the module beside this file; or from its bytes, a Response, a URL or a WebAssembly.Module.
export async function load(source = new URL("./$NAME.wasm", import.meta.url)) {
  if (source instanceof WebAssembly.Module) return new Model(source);
  let bytes = source;
  if (typeof source === "string" || source instanceof URL) {
    const url = String(source);
    if (typeof process !== "undefined" && process.versions?.node && !/^https?:|^data:|^blob:/.test(url)) {
      const { readFile } = await import("node:fs/promises");
      bytes = await readFile(url.startsWith("file:") ? new URL(url) : url);
    } else {
      bytes = await fetch(url);
    }
  }
  if (typeof Response !== "undefined" && bytes instanceof Response) {
    if (!bytes.ok) throw new ModelError(`${bytes.url}: ${bytes.status} ${bytes.statusText}`);
    bytes = await bytes.arrayBuffer();
  }
  return new Model(await WebAssembly.compile(bytes));
}

// A function with its memory and its state. Several models of one module share nothing.
export class Model {
  constructor(module) {
    this.module = module;
    const instance = new WebAssembly.Instance(module, {});
    this.exports = instance.exports;
    this.exports._initialize?.();
    this.memory = this.exports.memory;
    this._start = up(this.exports.__heap_base.value, 64);
    this._stateBytes = FACE.state.length ? this.exports.$NAME_state_size() : 0;
    this._room(this._start + this._stateBytes);
    this._plan = null;
    this.reset();
  }

  // Begin anew: variables have the values that they had when the library was made.
  reset() {
    if (this._stateBytes) this._check(this.exports.$NAME_state_init(this._start));
  }

  // The variables, as arrays that look into the memory of the model. A later call may move them: ask again.
  get state() {
    const found = {};
    for (const each of FACE.state) {
      found[each.name] = new each.type(this.memory.buffer, this._start + each.offset, each.count);
    }
    return found;
  }

  // The state as bytes, to be kept, and to be given to `restore`.
  save() {
    return new Uint8Array(this.memory.buffer, this._start, this._stateBytes).slice();
  }

  restore(bytes) {
    if (bytes.length !== this._stateBytes) {
      throw new ModelError(`a state of ${this._stateBytes} bytes, not ${bytes.length}`);
    }
    new Uint8Array(this.memory.buffer, this._start, this._stateBytes).set(bytes);
  }

  // Compute the outputs: typed arrays of their own, row by row, each with its `shape`.
  run(inputs = {}, sizes = {}) {
    const known = { input: FACE.inputs.map((each) => each.name), size: FACE.sizes };
    for (const [what, given] of [["input", inputs], ["size", sizes]]) {
      const other = Object.keys(given).find((name) => !known[what].includes(name));
      const all = known[what].join(", ") || "none";
      if (other !== undefined && FACE.sizes.includes(other)) {
        throw new ModelError(`${other} is a size, which comes after the inputs: run(inputs, { ${other}: 4 })`);
      }
      if (other !== undefined) throw new ModelError(`there is no ${what} ${other}, but ${all}`);
    }
    const missing = known.input.find((name) => (inputs[name] ?? null) === null);
    if (missing !== undefined) throw new ModelError(`an input is missing: ${missing}`);
    const views = this.prepare(this._sizes(inputs, sizes));
    for (const each of FACE.inputs) {
      const given = inputs[each.name];
      const place = views.inputs[each.name];
      const values = typeof given === "object" ? given : [given];
      if (values.length !== place.length) {
        throw new ModelError(`${each.name} has ${values.length} elements, expected ${place.length}: [${place.shape}]`);
      }
      place.set(values);
    }
    this.call();
    const found = {};
    for (const each of FACE.outputs) {
      const view = views.outputs[each.name];
      const shape = each.computed ? Array.from(views.outputs[each.computed], Number) : view.shape;
      found[each.name] = Object.assign(view.slice(0, product(shape)), { shape });
    }
    return found;
  }

  // Lay out memory for some sizes: { inputs, outputs }, arrays that look into the memory of the model. Fill the inputs,
  // `call()`, read the outputs: this allocates nothing, as audio needs it.
  prepare(sizes = {}) {
    for (const name of FACE.sizes) {
      if (sizes[name] === undefined) throw new ModelError(`the size ${name} is not known`);
      if (!Number.isSafeInteger(sizes[name]) || sizes[name] < 0) {
        throw new ModelError(`the size ${name} must be an integer from 0 on, not ${sizes[name]}`);
      }
    }
    const key = FACE.sizes.map((name) => sizes[name]).join();
    if (this._plan?.key !== key || this._plan.buffer !== this.memory.buffer) this._plan = this._layout(sizes, key);
    return this._plan;
  }

  // Compute with what is in the arrays of `prepare`.
  call() {
    if (!this._plan) throw new ModelError("call prepare(sizes) first: it lays out the memory of a call");
    const { at, bytes } = this._plan;
    const state = this._stateBytes ? this._start : 0;
    this._check(this.exports.$NAME_CALL(at.sizes, at.inputs, at.outputs, state, at.workspace, bytes));
  }

  _layout(sizes, key) {
    let end = up(this._start + this._stateBytes, 64);
    const place = (bytes, alignment = 64) => {
      const at = up(end, alignment);
      end = at + Math.max(bytes, 1);
      return at;
    };
    const at = { sizes: place(8 * FACE.sizes.length), inputs: place(4 * FACE.inputs.length) };
    at.outputs = place(4 * FACE.outputs.length);
    const arrays = {};
    for (const role of ["inputs", "outputs"]) {
      arrays[role] = FACE[role].map((each) => {
        const shape = each.shape(sizes);
        return { each, shape, address: place(product(shape) * each.type.BYTES_PER_ELEMENT) };
      });
    }
    this._room(end);
    const whole = new BigInt64Array(this.memory.buffer, at.sizes, FACE.sizes.length);
    whole.set(FACE.sizes.map((name) => BigInt(sizes[name])));
    const bytes = this.exports.$NAME_workspace(FACE.sizes.length ? at.sizes : 0) >>> 0;
    if (bytes === 0) throw new ModelError(`these sizes do not fit: ${JSON.stringify(sizes)}`);
    at.workspace = place(bytes);
    this._room(end);
    const plan = { key, at, bytes, buffer: this.memory.buffer, inputs: {}, outputs: {} };
    for (const role of ["inputs", "outputs"]) {
      const pointers = new Uint32Array(this.memory.buffer, at[role], FACE[role].length);
      arrays[role].forEach(({ each, shape, address }, i) => {
        pointers[i] = address;
        const view = new each.type(this.memory.buffer, address, product(shape));
        plan[role][each.name] = Object.assign(view, { shape });
      });
    }
    return plan;
  }

  // The sizes that were given, and those that can be told from how many elements an input has.
  _sizes(inputs, given) {
    const sizes = { ...given };
    for (let more = true; more; ) {
      more = false;
      for (const each of FACE.inputs) {
        const open = [...new Set(each.sizes)].filter((name) => name !== null && sizes[name] === undefined);
        if (open.length !== 1 || inputs[each.name]?.length === undefined) continue;
        const elements = (size) => product(each.shape({ ...sizes, [open[0]]: size }));
        const [count, rest] = [inputs[each.name].length, elements(1)];
        if (!(rest > 0)) continue;
        let size = Math.floor(count / rest);
        if (elements(size) !== count) {
          for (size = 0; size < count && elements(size) < count; size++); // as of a matrix (n, n)
        }
        if (elements(size) !== count) {
          const fits = elements(2) === 2 * rest ? `expected a multiple of ${rest}` : `which no size ${open[0]} gives`;
          throw new ModelError(`${each.name} has ${count} elements, ${fits}`);
        }
        sizes[open[0]] = size;
        more = true;
      }
    }
    return sizes;
  }

  _room(end) {
    const missing = end - this.memory.buffer.byteLength;
    if (missing > 0) this.memory.grow(Math.ceil(missing / 65536));
  }

  _check(status) {
    if (status === 0) return;
    const memory = new Uint8Array(this.memory.buffer);
    const start = this.exports.$NAME_error(status);
    const text = new TextDecoder().decode(memory.slice(start, memory.indexOf(0, start)));
    throw new ModelError(text, status);
  }
}
