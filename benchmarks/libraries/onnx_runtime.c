/* ONNX Runtime by its API for C, without its header: the numbers of functions in `OrtApi` never change. PATH is that of
   the library; the model is `amp.onnx` in this folder. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine.h"

#define UNITS 40

typedef struct base {
    const void *const *(*api)(uint32_t version);
    const char *(*version)(void);
} base;
typedef void *(*function)();

enum { MESSAGE = 2, ENV = 3, SESSION = 7, RUN = 9, OPTIONS = 10, INTRA = 24, INTER = 25, TENSOR = 49, MEMORY = 69 };

static const void *const *api;
static void *session, *inputs[3], *outputs[3];
static float in[BLOCK], out[BLOCK], h[2][UNITS], c[2][UNITS];
static void *values[2][2][3];

#define CALL(number, ...) checked(((function)(uintptr_t)api[number])(__VA_ARGS__))

static void checked(void *status)
{
    if (status != NULL) {
        puts(((const char *(*)(void *))(uintptr_t)api[MESSAGE])(status));
        exit(3);
    }
}

static void *tensor(void *memory, float *data, size_t count, const int64_t *shape)
{
    void *found = NULL;
    CALL(TENSOR, memory, (void *)data, count * sizeof(float), shape, (size_t)3, 1, &found);
    return found;
}

void start(const char *path)
{
    static const int64_t of_samples[] = {BLOCK, 1, 1}, of_state[] = {1, 1, UNITS};
    void *library = dlopen(path, RTLD_NOW), *env = NULL, *options = NULL, *memory = NULL;
    const base *(*get)(void);
    int i;
    if (library == NULL) {
        puts(dlerror());
        exit(4);
    }
    *(void **)&get = dlsym(library, "OrtGetApiBase");
    api = get()->api(17);
    CALL(ENV, 3, "amp", &env);
    CALL(OPTIONS, &options);
    CALL(INTRA, options, 1);
    CALL(INTER, options, 1);
    CALL(SESSION, env, "amp.onnx", options, &session);
    CALL(MEMORY, 0, 0, &memory);
    for (i = 0; i < 2; i++) { /* the state goes from one pair of arrays to the other */
        values[0][i][0] = tensor(memory, in, BLOCK, of_samples);
        values[0][i][1] = tensor(memory, h[i], UNITS, of_state);
        values[0][i][2] = tensor(memory, c[i], UNITS, of_state);
        values[1][i][0] = tensor(memory, out, BLOCK, of_samples);
        values[1][i][1] = tensor(memory, h[1 - i], UNITS, of_state);
        values[1][i][2] = tensor(memory, c[1 - i], UNITS, of_state);
    }
}

void block(const float *x, float *y)
{
    static const char *const given[] = {"x", "h", "c"}, *const found[] = {"y", "h_next", "c_next"};
    static int turn;
    int i;
    for (i = 0; i < 3; i++) {
        inputs[i] = values[0][turn][i];
        outputs[i] = values[1][turn][i];
    }
    for (i = 0; i < BLOCK; i++)
        in[i] = x[i];
    CALL(RUN, session, (void *)NULL, given, (const void *const *)inputs, (size_t)3, found, (size_t)3, outputs);
    for (i = 0; i < BLOCK; i++)
        y[i] = out[i];
    turn = 1 - turn;
}
