/* An exported library, opened as a plugin is. STEPS: one call for each sample. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "amp.h"
#include "engine.h"

#ifdef STEPS
#define CALL "amp_step"
#define CALLS BLOCK
#else
#define CALL "amp_run"
#define CALLS 1
#endif

static int (*run)(const amp_sizes *, const amp_inputs *, const amp_outputs *, amp_state *, void *, size_t);
static size_t bytes;
static amp_state state;
static void *workspace;

void start(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    size_t (*needed)(const amp_sizes *);
    int (*init)(amp_state *);
    if (library == NULL) {
        puts(dlerror());
        exit(3);
    }
    *(void **)&needed = dlsym(library, "amp_workspace");
    *(void **)&init = dlsym(library, "amp_state_init");
    *(void **)&run = dlsym(library, CALL);
    bytes = needed(NULL);
    if (posix_memalign(&workspace, 64, bytes) != 0 || init(&state) != 0)
        exit(4);
}

void block(const float *x, float *y)
{
    int i;
    for (i = 0; i < CALLS; i++) {
        const amp_inputs inputs = {x + i};
        const amp_outputs outputs = {y + i};
        if (run(NULL, &inputs, &outputs, &state, workspace, bytes) != 0)
            exit(5);
    }
}
