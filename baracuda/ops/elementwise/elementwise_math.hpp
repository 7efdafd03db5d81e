#pragma once
// Every functor of the family.
#include "baracuda/ops/elementwise/activation_math.hpp"
#include "baracuda/ops/elementwise/arithmetic_math.hpp"
#include "baracuda/ops/elementwise/binary_math.hpp"
#include "baracuda/ops/elementwise/function_math.hpp"
#include "baracuda/ops/elementwise/logic_math.hpp"
#include "baracuda/ops/elementwise/special_math.hpp"
#include "baracuda/ops/elementwise/ternary_math.hpp"
