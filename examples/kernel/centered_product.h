/// An operator with its bound rule and its kernel, com.example:CenteredProduct:
///   Y[..., n] = (X - the mean of each row of X) · W,   X[..., k] and the constant W[k, n], floats.
/// The same source serves the host (in_tree.cc) and a plugin (shared_source.cc).
#pragma once

#include "kernels/registry.h"
#include "ops/catalogue.h"

namespace example {

extern const ullage::ops::OpInfo kCenteredProduct;
void RegisterCenteredProduct(ullage::kernels::Registry& registry);

}  // namespace example
