"""From ONNX graphs to expressions."""
