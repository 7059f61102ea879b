"""Parameters that come from other libraries, and go back to them.

One module for each: `tf_cudnn` (stacks of TensorFlow's `CudnnLSTM`), `tensorflow` (its cells), `torch`, `keras`,
`onnx`, `onednn`, which turn arrays by their names into layers and back; and `cudnn`, whose parameters have no names.
None of them needs the library itself. `files` reads and writes `.npz` and safetensors, `hdf5` reads Keras's files. No
importer runs code from a file.

An array that is missing, unknown or of another shape than the others say is an error that names it; one with values
that are not finite is taken as it is, with a `RuntimeWarning`. Weights of float32 stay so, and layers compute in
float32 then; others become `scanjit.config.floatX`.
"""

from lasagne_like.importers import keras, onednn, onnx, tensorflow, tf_cudnn, torch
from lasagne_like.importers.arrays import *  # noqa: F403
from lasagne_like.importers.arrays import __all__ as _arrays
from lasagne_like.importers.cudnn import *  # noqa: F403
from lasagne_like.importers.cudnn import __all__ as _cudnn
from lasagne_like.importers.files import *  # noqa: F403
from lasagne_like.importers.files import __all__ as _files
from lasagne_like.importers.hdf5 import *  # noqa: F403
from lasagne_like.importers.hdf5 import __all__ as _hdf5
from lasagne_like.importers.weights import *  # noqa: F403
from lasagne_like.importers.weights import __all__ as _weights

__all__ = [
    "keras",
    "onednn",
    "onnx",
    "tensorflow",
    "tf_cudnn",
    "torch",
    *_arrays,
    *_cudnn,
    *_files,
    *_hdf5,
    *_weights,
]
