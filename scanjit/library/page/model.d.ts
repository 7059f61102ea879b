export type Shaped<A> = A & { shape: number[] };

export interface Sizes {
$SIZES}

export interface Inputs {
$INPUTS}

/** The inputs in the memory of the model, as `prepare` gives them. */
export interface Views {
$VIEWS}

export interface Outputs {
$OUTPUTS}

export interface State {
$STATE}

export class ModelError extends Error {
  status: number;
}

export class Model {
  constructor(module: WebAssembly.Module);
  readonly module: WebAssembly.Module;
  readonly state: State;
  run(inputs: Inputs, sizes?: Sizes): Outputs;
  prepare(sizes?: Sizes): { inputs: Views; outputs: Outputs };
  call(): void;
  reset(): void;
  save(): Uint8Array;
  restore(bytes: Uint8Array): void;
}

export function load(source?: string | URL | Response | BufferSource | WebAssembly.Module): Promise<Model>;
