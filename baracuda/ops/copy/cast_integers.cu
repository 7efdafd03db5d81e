// Casts of integers.
#include "baracuda/ops/copy/cast_table.cuh"

namespace baracuda {

extern const ByDType<ByDType<CastLaunch>> cast_integers_cuda = cast_table<device_map::Casting>(join(TypeList<bool>{}, Integers{}), CastNumbers{});

}  // namespace baracuda
