"""Functions that older versions saved, with what their calls gave: each newer version must read them."""
