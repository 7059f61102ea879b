"""Parameters from other libraries, and back to them.

One module for each: `tf_cudnn` (stacks of TensorFlow's `CudnnLSTM`), `tensorflow` (its cells), `torch`, `keras`,
`onnx`, `onednn`, which make layers of named arrays, and arrays of layers; and `cudnn`, whose parameters have no names.
None of them needs the library itself. `files` reads and writes `.npz` and safetensors, `hdf5` reads Keras's files. No
importer runs code from a file.

An array that is missing, that is not known, or whose shape does not fit the others is an error that names it. Values
that are not finite are taken as they are, with a `RuntimeWarning`. Weights of float32 stay float32, and then the layers
compute in float32; others become `scanjit.config.floatX`.
"""

from lasagne_like.importers import (
    keras as keras,
    onednn as onednn,
    onnx as onnx,
    tensorflow as tensorflow,
    tf_cudnn as tf_cudnn,
    torch as torch,
)
from lasagne_like.importers.arrays import *  # noqa: F403
from lasagne_like.importers.cudnn import *  # noqa: F403
from lasagne_like.importers.files import *  # noqa: F403
from lasagne_like.importers.hdf5 import *  # noqa: F403
from lasagne_like.importers.weights import *  # noqa: F403
