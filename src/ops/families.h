/// The operator families. Internal to ops: each function adds the entries of one file.
#pragma once

#include "ops/rule_util.h"

namespace ullage::ops {

void RegisterElementwise(Registry& ops);  // elementwise.cc: unary, binary, variadic, logic, Cast, Where
void RegisterReductions(Registry& ops);   // reductions.cc: Reduce*, ArgMax, Softmax, CumSum
void RegisterLayout(Registry& ops);       // layout.cc: Shape, Reshape, Transpose, Expand, Tile, Concat, ...
void RegisterIndexing(Registry& ops);     // indexing.cc: Gather*, Slice, Split, Compress
void RegisterScatter(Registry& ops);      // scatter.cc: Scatter*, TensorScatter, Trilu, Pad
void RegisterGenerators(Registry& ops);   // generators.cc: Constant, ConstantOfShape, Range, random numbers
void RegisterSelection(Registry& ops);    // selection.cc: TopK, NonZero, OneHot, Unique, NonMaxSuppression
void RegisterProducts(Registry& ops);     // products.cc: MatMul, Gemm, Einsum and their fused forms
void RegisterQuantisedWeights(
    Registry& ops);  // quantised_weights.cc: MatMulNBits, MatMulBnb4, GatherBlockQuantized
void RegisterQuantisation(Registry& ops);  // quantisation.cc: Quantize/Dequantize, QLinear*
void RegisterConvolutions(Registry& ops);  // convolutions.cc: Conv*, pools
void RegisterImages(Registry& ops);        // images.cc: Resize, GridSample, DepthToSpace, ...
void RegisterNorms(Registry& ops);         // norms.cc: batch, layer, RMS, skip norms
void RegisterAttention(Registry& ops);     // attention.cc: all attentions and rotary embeddings
void RegisterExperts(Registry& ops);       // experts.cc: MoE, QMoE
void RegisterStates(Registry& ops);        // states.cc: convolution and linear-attention states
void RegisterRecurrent(Registry& ops);     // recurrent.cc: LSTM, GRU, RNN
void RegisterControl(Registry& ops);       // control.cc: If, Loop, Scan
void RegisterSequences(Registry& ops);     // sequences.cc: sequences and optionals
void RegisterSignals(Registry& ops);       // signals.cc: DFT, STFT, windows
void RegisterStrings(Registry& ops);       // strings.cc: strings, images in files, ai.onnx.ml
void RegisterLosses(Registry& ops);        // losses.cc: training losses
void RegisterUllage(Registry& ops);        // ullage_ops.cc: operators of our own passes

}  // namespace ullage::ops
