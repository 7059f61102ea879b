"""How ops are lowered: a file for each op, or for each kind of op that is lowered in one way."""
