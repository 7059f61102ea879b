"""Parameters from other libraries, and back to them.

Each library has a module. `torch`, `keras`, `onnx`, `onednn`, `tensorflow` (for TensorFlow's cells) and `tf_cudnn` (for
its `CudnnLSTM`) make layers from named arrays, and named arrays from layers. `cudnn` reads and writes parameters that
have no names. None of them needs the library itself. `files` reads and writes `.npz` and safetensors, and `hdf5` reads
Keras's files. No importer runs code from a file.

If an array is missing, is not known, or does not fit the others, the error names it. Values that are not finite are
imported with a `RuntimeWarning`. Layers with weights of float32 compute in float32. All other weights become
`scanjit.config.floatX`.
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
