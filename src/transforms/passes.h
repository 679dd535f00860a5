/// The passes that pipeline.cc lists, one per file.
#pragma once

#include "transforms/pass.h"

namespace ullage::transforms {

int RemoveDead(PassContext& context);

// qlinear.cc
int ExpandQLinear(PassContext& context);
// conv_scale.cc, conv_activation.cc
int FoldConvScale(PassContext& context);
int FuseConvActivation(PassContext& context);
// fold.cc: arithmetic on constants. The first spares what feeds only weights of products, which
// MakeLinear reads in place; the second takes what is left.
int FoldConstants(PassContext& context);
int FoldRemaining(PassContext& context);
// shape_fold.cc: sizes and small integers, by what the facts prove.
int FoldShapes(PassContext& context);
// common.cc
int MergeCommon(PassContext& context);
// conditional.cc
int InlineConditionals(PassContext& context);
int SelectConstants(PassContext& context);
// casts.cc
int DropCasts(PassContext& context);
// tied_embedding.cc
int GatherTransposed(PassContext& context);
// linear.cc, multi_linear.cc
int MakeLinear(PassContext& context);
int MergeLinears(PassContext& context);
// norm.cc, residual_norm.cc
int FuseNorm(PassContext& context);
int FuseResidualNorm(PassContext& context);
// gelu.cc, gated.cc
int FuseGelu(PassContext& context);
int FuseGated(PassContext& context);
// rope.cc, attention.cc
int FuseRotary(PassContext& context);
int FuseAttention(PassContext& context);
// last_token.cc
int KeepLastToken(PassContext& context);

}  // namespace ullage::transforms
