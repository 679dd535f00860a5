/// Making a model fit: the largest context for a limit, and what would help when nothing else fits.
#pragma once

#include <memory>
#include <vector>

#include "llm/decoder.h"
#include "llm/model_source.h"
#include "session/report.h"

namespace ullage::llm {

/// The decoder, loaded. With a limit it is planned first: when the plan does not fit, kDoesNotFit is thrown
/// with the account and the remedies before any weight is read and anything large is allocated.
/// `options.context` may be kLargestContext: then it is the one of LargestContext().
std::unique_ptr<Decoder> CreateFitting(const ModelSource& source, const DecoderOptions& options);

/// The decoder planned (plan_only is set): as CreateFitting would load it. When it does not fit, it is
/// returned all the same, with what would help in `remedies`.
std::unique_ptr<Decoder> PlanFitting(const ModelSource& source, DecoderOptions options,
                                     std::vector<session::Remedy>* remedies);

/// What a planned decoder would take with half and a quarter of its context and of its chunk.
std::vector<session::Remedy> OtherBounds(const Decoder& planned);

}  // namespace ullage::llm
