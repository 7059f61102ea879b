// The filter on the audio thread. It allocates nothing but what it tells the page, some times a second.
import { Model } from "./filter/filter.js";

class Filter extends AudioWorkletProcessor {
  constructor({ processorOptions }) {
    super();
    this.model = new Model(processorOptions.module);
    this.settings = processorOptions.settings;
    this.port.onmessage = ({ data }) => (this.settings = data);
    this.shown = { x: new Float32Array(2048), y: new Float32Array(2048), count: 0 };
  }

  process([[x]], [[y]]) {
    if (!x) return true; // nothing is connected yet
    const { inputs, outputs } = this.model.prepare({ T: x.length });
    inputs.x.set(x);
    inputs.cutoff[0] = this.settings.cutoff;
    inputs.resonance[0] = this.settings.resonance;
    this.model.call();
    y.set(outputs.output);
    this.shown.x.set(x, this.shown.count);
    this.shown.y.set(y, this.shown.count);
    this.shown.count += x.length;
    if (this.shown.count + x.length > this.shown.x.length) {
      this.port.postMessage(this.shown);
      this.shown.count = 0;
    }
    return true;
  }
}

registerProcessor("filter", Filter);
