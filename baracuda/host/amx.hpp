#pragma once
// Whether products of bf16 may use the tiles of AMX, beside isa(): this processor has them and avx512bf16, the system lets
// the process have their registers (asked for at the first call), BARACUDA_ISA names nothing less than `amx`, and neither
// limit_isa() nor limit_amx() is in the way.

namespace baracuda {

bool has_amx();
// For tests: from now on, use them or not.
void limit_amx(bool allowed);

}  // namespace baracuda
