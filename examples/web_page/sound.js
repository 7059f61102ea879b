// Sound: a made signal, and a plot of what comes in and what comes out.

// A slow sine, a fast one, and noise.
export function made(count, rate) {
  let seed = 1;
  const noise = () => (seed = (16807 * seed) % 2147483647) / 2147483647 - 0.5;
  const wave = (frequency, i) => Math.sin((2 * Math.PI * frequency * i) / rate);
  return Float32Array.from({ length: count }, (_, i) => 0.6 * wave(220, i) + 0.25 * wave(5000, i) + 0.2 * noise());
}

// Filter a signal in blocks, as a sound card asks for them.
export function filtered(model, signal, cutoff, resonance, block = 128) {
  const found = new Float32Array(signal.length);
  model.reset();
  for (let i = 0; i < signal.length; i += block) {
    const x = signal.subarray(i, i + block);
    found.set(model.run({ x, cutoff, resonance }, { T: x.length }).output, i);
  }
  return found;
}

// Draw signals into a canvas, each in a color.
export function plot(canvas, signals, colors) {
  const { width, height } = canvas;
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, width, height);
  signals.forEach((signal, k) => {
    pen.strokeStyle = colors[k];
    pen.beginPath();
    signal.forEach((value, i) => pen.lineTo((i * width) / signal.length, height * (0.5 - 0.45 * value)));
    pen.stroke();
  });
}
