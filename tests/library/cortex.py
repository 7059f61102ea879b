"""What a program for a Cortex-M needs around it to run under `qemu-system-arm -M mps2-an386`: a start, and where memory
lies. It reads nothing: arguments are arrays in the program. It prints the bits of the results."""

LINKER = """\
MEMORY { flash : ORIGIN = 0x0, LENGTH = 4M  ram : ORIGIN = 0x20000000, LENGTH = 4M }
ENTRY(start)
SECTIONS {
    .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) } > flash
    .ARM.exidx : { *(.ARM.exidx*) } > flash
    .data : { *(.data*) } > ram
    .bss : { __bss_start__ = .; *(.bss*) *(COMMON) __bss_end__ = .; end = .; _end = .; } > ram
    stack_top = ORIGIN(ram) + LENGTH(ram);
}
"""
PROGRAM = """\
#include <stdint.h>
#include "model.h"

extern unsigned char stack_top;
void start(void);
__attribute__((section(".vectors"), used)) void (*const vectors[])(void) = {(void (*)(void))&stack_top, start};

/* A call of the emulator: it writes, or ends. */
static int host(int what, const void *with)
{
    register int r0 __asm__("r0") = what;
    register const void *r1 __asm__("r1") = with;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void say(uint32_t word)
{
    static const char digits[] = "0123456789abcdef";
    char text[10];
    int i;
    for (i = 0; i < 8; i++)
        text[i] = digits[(word >> (28 - 4 * i)) & 15];
    text[8] = '\\n';
    text[9] = 0;
    host(4, text);
}

static const float x[] = {$GIVEN};
static float y[1];
static model_state state;
static unsigned char workspace[$BYTES] __attribute__((aligned(64)));

void start(void)
{
    const model_inputs inputs = {x};
    const model_outputs outputs = {y};
    int i, status;
    union { float value; uint32_t word; } bits;
    *(volatile uint32_t *)0xe000ed88u |= 0xf00000u; /* the unit of floats on */
    __asm__ volatile("dsb\\n isb");
    status = model_state_init(&state);
    for (i = 0; i < $CALLS && status == 0; i++) {
        status = model_run(0, &inputs, &outputs, &state, workspace, sizeof(workspace));
        bits.value = y[0];
        say(bits.word);
    }
    say((uint32_t)status);
    host(0x18, (const void *)0x20026);
    for (;;)
        ;
}
"""
