"""Where buffers lie in the workspace, and what is kept there between calls."""
