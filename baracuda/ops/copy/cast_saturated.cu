// Casts that saturate.
#include "baracuda/ops/copy/cast_table.cuh"

namespace baracuda {

extern const ByDType<ByDType<CastLaunch>> cast_saturated_cuda = cast_table<device_map::Saturating>(CastNumbers{}, join(TypeList<f16, bf16>{}, Float8{}));

}  // namespace baracuda
