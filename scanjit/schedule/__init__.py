"""From graph to loop nests: what is computed together, where values lie, in which order. `pipeline` begins it."""
