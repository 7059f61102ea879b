/* What an engine does for `timing.c`. `start` makes it ready, from a file; `block` computes the next samples. */
#ifndef ENGINE_H
#define ENGINE_H
#define BLOCK 64
#ifdef __cplusplus
extern "C" {
#endif
void start(const char *path);
void block(const float *x, float *y);
#ifdef __cplusplus
}
#endif
#endif
