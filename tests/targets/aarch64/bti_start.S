// The entry of a program whose indirect jumps must land on landing pads: that of libc has none.
    .globl _start
    .type _start, %function
_start:
    .cfi_startproc
    .cfi_undefined x30
    bti c
    mov x29, #0
    mov x30, #0
    mov x5, x0
    ldr x1, [sp]
    add x2, sp, #8
    mov x6, sp
    adrp x0, main
    add x0, x0, :lo12:main
    mov x3, #0
    mov x4, #0
    bl __libc_start_main
    brk #1
    .cfi_endproc
    .size _start, . - _start
