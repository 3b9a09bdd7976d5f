// Which Highway targets the kernels are built for. Include before anything of Highway's.
#pragma once

// One target per core::Backend: the variants of AVX-512 above the base add nothing here, and the SVE targets have
// vectors whose size is not known when compiling. The scalar target is always built, so that every machine can
// run it as the fallback and as a check on the others.
#define HWY_DISABLED_TARGETS (~(HWY_AVX3 | HWY_AVX2 | HWY_NEON | HWY_EMU128))
#define HWY_COMPILE_ALL_ATTAINABLE
// GCC before 12.3 miscompiles some 16-bit multiplies of this target (GCC bug 106322). No kernel has any, and the
// tests compare its bits with a plain loop.
#define HWY_BROKEN_EMU128 0
