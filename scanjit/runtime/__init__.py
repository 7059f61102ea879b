"""Running programs: the reference interpreter, compiled kernels and their cache, threads, the callable function."""
