// Casts of floats.
#include "baracuda/ops/copy/cast_table.cuh"

namespace baracuda {

extern const ByDType<ByDType<CastLaunch>> cast_floats_cuda = cast_table<device_map::Casting>(join(Floating{}, Float8{}), CastNumbers{});

}  // namespace baracuda
