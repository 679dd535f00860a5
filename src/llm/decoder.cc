#include "llm/decoder.h"

#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "core/error.h"
#include "core/half.h"
#include "gguf/import.h"
#include "graph/patch.h"
#include "kernels/kv_rows.h"
#include "shapes/input_bounds.h"

namespace ullage::llm {

using graph::kNone;
using graph::ValueId;

namespace {

constexpr std::string_view kLongContextInput = "ullage.long_context";

/// The layer number when `name` is `pattern` with a number for "%d"; -1 otherwise.
int64_t MatchPattern(std::string_view name, std::string_view pattern) {
  const auto at = pattern.find("%d");
  if (at == std::string_view::npos || name.size() < pattern.size() - 1) return -1;
  const auto before = pattern.substr(0, at), after = pattern.substr(at + 2);
  if (name.substr(0, at) != before || name.size() < before.size() + after.size()) return -1;
  if (name.substr(name.size() - after.size()) != after) return -1;
  const auto digits = name.substr(at, name.size() - before.size() - after.size());
  if (digits.empty() || digits.size() > 6) return -1;
  int64_t n = 0;
  for (char c : digits) {
    if (c < '0' || c > '9') return -1;
    n = n * 10 + (c - '0');
  }
  return n;
}

std::string FillPattern(std::string pattern, int64_t n) {
  if (const auto at = pattern.find("%d"); at != std::string::npos) pattern.replace(at, 2, std::to_string(n));
  return pattern;
}

std::string Replaced(std::string s, std::string_view from, std::string_view to) {
  if (const auto at = s.find(from); at != std::string::npos) s.replace(at, from.size(), to);
  return s;
}

bool HasOutput(const graph::Graph& g, std::string_view name) {
  return std::any_of(g.outputs.begin(), g.outputs.end(), [&](ValueId v) { return g.value(v).name == name; });
}

/// The output that hands the state on; empty when there is none.
std::string PresentOf(const graph::Graph& g, const TensorNames& names, const std::string& past) {
  if (const int64_t n = MatchPattern(past, names.past_key); n >= 0) {
    const std::string out = FillPattern(names.present_key, n);
    if (HasOutput(g, out)) return out;
  }
  if (const int64_t n = MatchPattern(past, names.past_value); n >= 0) {
    const std::string out = FillPattern(names.present_value, n);
    if (HasOutput(g, out)) return out;
  }
  if (past.rfind("past", 0) != 0 && past.rfind("cache", 0) != 0) return "";
  for (const auto& out : {Replaced(past, "past_key_values", "present"), Replaced(past, "past", "present"),
                          Replaced(past, "past_key_values", "present_key_values"), past + "_out"})
    if (out != past && HasOutput(g, out)) return out;
  return "";
}

/// Tokens of an attention mask of fixed size; 0 where it is as long as what it masks.
int64_t MaskLength(const graph::Graph& g, const TensorNames& names) {
  const ValueId v = g.FindValue(names.attention_mask);
  if (v == kNone || !g.value(v).is_input || !g.value(v).declared || g.value(v).declared->empty()) return 0;
  return std::max<int64_t>(g.value(v).declared->back().value, 0);
}

/// The node that reads the value as a windowed cache, which never grows; null when there is none.
const graph::Node* WindowedReader(const graph::Graph& g, ValueId v) {
  for (graph::NodeId id : g.value(v).consumers) {
    const graph::Node& n = g.node(id);
    if (n.Is(graph::kMsDomain, "GroupQueryAttention") && n.Int("sliding_window_cache", 0) != 0) return &n;
  }
  return nullptr;
}

/// Rows of a cache for a window: what is kept, and room for as many new tokens before rows must move.
int64_t WindowKeep(int64_t window) {
  return window + std::min(window, kWindowReserve);
}
int64_t WindowCapacity(int64_t window) {
  return WindowKeep(window) + std::min(window, kWindowReserve);
}

template <class T>
void Fill(std::vector<std::byte>& data, int64_t count, const auto& value_of) {
  for (int64_t i = 0; i < count; ++i) {
    const T v = static_cast<T>(value_of(i));
    std::memcpy(data.data() + static_cast<size_t>(i) * sizeof(T), &v, sizeof(T));
  }
}

void FillAs(DType dtype, std::vector<std::byte>& data, int64_t count, const auto& value_of) {
  switch (dtype) {
    case DType::kInt64:
      Fill<int64_t>(data, count, value_of);
      break;
    case DType::kInt32:
      Fill<int32_t>(data, count, value_of);
      break;
    case DType::kBool:
      Fill<uint8_t>(data, count, value_of);
      break;
    case DType::kFloat:
      Fill<float>(data, count, value_of);
      break;
    default:
      Throw(Code::kUnsupported, "inputs of type ", NameOf(dtype));
  }
}

}  // namespace

std::unique_ptr<Decoder> Decoder::Create(const ModelSource& source, const DecoderOptions& options) {
  std::unique_ptr<Decoder> d(new Decoder);
  const int64_t limit = source.context_length;
  d->options_ = options;
  d->model_name_ = source.name;
  d->model_folder_ = source.folder;
  d->gguf_ = source.kind == ModelSource::Kind::kGguf;
  if (options.context > 0)
    d->context_ = options.context;
  else if (options.context == kLargestContext && limit > 0)
    d->context_ = limit;
  else
    d->context_ = std::min(limit > 0 ? limit : kDefaultContext, kDefaultContext);
  if (limit > 0 && d->context_ > limit)
    Throw(Code::kUsage, "--context ", d->context_, " is more than the model's context of ", limit, " tokens");

  d->graph_ = LoadGraph(source, options.plan_only, d->context_);
  if (options.context <= 0)
    if (const int64_t fixed = MaskLength(*d->graph_, source.names); fixed > 0)
      d->context_ = std::min(d->context_, fixed);
  // onnxruntime-genai's MultiHeadAttention graphs build masks that fit a whole prompt or one token, nothing
  // between.
  for (graph::NodeId id : d->graph_->Order())
    if (d->graph_->node(id).Is(graph::kMsDomain, "MultiHeadAttention")) d->whole_prompts_ = true;
  d->KeepLimits(*d->graph_, source.names, options.options.Str("session.max_shape_override"));
  d->chunk_ = d->ChunkFor(d->context_);
  d->FindLongContextSwitch(*d->graph_);
  d->WindowCaches(*d->graph_);
  d->Recognise(source, *d->graph_);
  d->single_profile_ = d->chunk_ == 1;
  d->session_ = session::Session::Create(d->Spec(d->graph_, d->context_, d->chunk_));
  if (!options.plan_only) d->execution_ = d->session_->Acquire();
  d->logits_index_ = d->session_->OutputIndex(d->logits_name_);
  if (options.plan_only) return d;
  d->tokens_.reserve(static_cast<size_t>(d->context_));
  d->replay_.reserve(static_cast<size_t>(d->context_));
  d->row_.resize(static_cast<size_t>(d->vocabulary_));
  return d;
}

void Decoder::KeepLimits(const graph::Graph& graph, const TensorNames& names, const std::string& text) {
  const auto limits = shapes::ParseMaxShapeOverride(text);
  shapes::CheckLimits(graph, limits);
  for (const auto& limit : limits) {
    const ValueId v = graph.FindValue(limit.input);
    const auto& declared = *graph.value(v).declared;
    if (limit.dims.empty()) continue;
    if (limit.input == names.input_ids || limit.input == names.position_ids) {
      if (declared.back().value < 0) chunk_limit_ = std::min(chunk_limit_, limit.dims.back());
    } else if (limit.input == names.attention_mask) {
      if (declared.back().value < 0) context_ = std::min(context_, limit.dims.back());
    } else if (declared.size() == 4 && declared[2].value < 0 && !WindowedReader(graph, v)) {
      context_ = std::min(context_, limit.dims[2] + 1);  // the rows before the last token
    }
  }
}

int64_t Decoder::ChunkFor(int64_t context) const {
  const int64_t most = std::min(context, chunk_limit_);
  if (options_.chunk > 0) return std::min(options_.chunk, most);
  return whole_prompts_ ? most : std::min(kDefaultChunk, most);
}

session::SessionSpec Decoder::Spec(std::shared_ptr<graph::Graph> graph, int64_t context,
                                   int64_t chunk) const {
  session::SessionSpec spec;
  spec.model_name = model_name_;
  spec.model_folder = model_folder_;
  spec.graph = std::move(graph);
  spec.options = options_.options;
  if (!spec.options.Has("session.pre_allocate_execution_buffers"))
    spec.options.Set("session.pre_allocate_execution_buffers", "1");
  spec.threads = options_.threads;
  spec.states = states_;
  for (size_t i = 0; i < states_.size(); ++i) spec.states[i].max_shape = state_shapes_[i].For(context);
  spec.extra = options_.extra;
  auto own = static_cast<int64_t>(static_cast<size_t>(vocabulary_) * sizeof(float));
  own += 2 * context * static_cast<int64_t>(sizeof(int32_t));
  for (const Input& in : inputs_) own += static_cast<int64_t>(InputBytes(in, context, chunk));
  spec.extra.push_back({"token ids, masks and positions", memory::Tag::kOverhead, own});
  spec.cpu_limit = options_.cpu_limit;
  spec.plan_only = options_.plan_only;
  if (!options_.all_logits) spec.last_token_output = logits_name_;
  const auto profile = [this, context](int64_t most) {
    return [this, context, most](const graph::Graph& g, ops::SymbolTable& t) {
      return Facts(g, t, context, most);
    };
  };
  if (chunk > 1) spec.profiles.push_back({"prefill", profile(chunk)});
  spec.profiles.push_back({"decode", profile(1)});
  spec.input_facts = profile(chunk);
  return spec;
}

memory::TagBytes Decoder::Planned(int64_t context, int64_t chunk) const {
  if (context < 1 || context > context_ || chunk < 1 || chunk > std::min(chunk_, context))
    Throw(Code::kRuntime, "cannot plan for a context of ", context, " and chunks of ", chunk, " over ",
          context_, " and ", chunk_);
  session::SessionSpec spec = Spec(graph_, context, chunk);
  spec.plan_only = true;
  spec.optimized_outputs = session_->output_names();
  // Rows may be stored in another type, and width, than the model's.
  for (size_t i = 0; i < spec.states.size(); ++i)
    if (spec.states[i].max_shape.rank() == 4)
      spec.states[i].max_shape[3] = session_->spec().states[i].max_shape[3];
  if (gguf_) gguf::SetPositions(*graph_, context);
  const auto session = session::Session::Create(std::move(spec));
  return session->device_plan().tags;
}

size_t Decoder::InputBytes(const Input& in, int64_t context, int64_t chunk) {
  const auto of = [](int64_t numbers) {
    return CheckedMul<size_t>(static_cast<size_t>(numbers), sizeof(int64_t));
  };
  switch (in.role) {
    case Role::kIds:
      return of(chunk);
    case Role::kMask:
      return of(in.fixed_mask ? in.mask_length : context);
    case Role::kPositions:
      return of(CheckedMul<int64_t>(chunk, in.rank == 3 ? 3 : 1));
    case Role::kState:
      return 0;
    default:
      return of(1);
  }
}

Shape Decoder::StateShape::For(int64_t context) const {
  Shape shape = fixed;
  if (rows_axis >= 0)
    shape[rows_axis] =
        window > 0 ? std::max(WindowKeep(window), std::min(context, WindowCapacity(window))) : context;
  return shape;
}

void Decoder::FindLongContextSwitch(graph::Graph& graph) {
  for (graph::NodeId id : graph.Order()) {
    const graph::Node& node = graph.node(id);
    if (node.op != "If" || !node.domain.empty()) continue;
    const graph::Node* condition = graph.ProducerOf(node.input(0));
    if (!condition || (condition->op != "Greater" && condition->op != "GreaterOrEqual")) continue;
    const graph::Constant* limit = graph.ConstantOf(condition->input(1));
    if (!limit || limit->elements() != 1 || !limit->available() || !node.captures.empty()) continue;
    const int64_t threshold = limit->AsInts()[0] - (condition->op == "GreaterOrEqual" ? 1 : 0);
    if (long_threshold_ > 0 && threshold != long_threshold_) continue;
    long_threshold_ = threshold;
    ValueId flag = graph.FindValue(kLongContextInput);
    if (flag == kNone) flag = graph.AddInput(kLongContextInput, DType::kBool, graph::DeclaredShape{});
    graph.SetInput(graph.node(id), 0, flag);
  }
}

/// Layers that see the last tokens only keep no others, where that saves memory.
void Decoder::WindowCaches(graph::Graph& graph) const {
  for (graph::NodeId id : graph.Order()) {
    graph::Node& node = graph.node(id);
    const int64_t window =
        node.Is(graph::kMsDomain, "GroupQueryAttention") ? node.Int("local_window_size", -1) : -1;
    if (window < 1 || !node.has_input(3) || !node.has_input(4)) continue;
    if (node.Int("sliding_window_cache", 0) == 0) {
      if (WindowCapacity(window) >= context_ || node.Int("causal", 1) == 0 || node.has_input(10)) continue;
      bool fits = true;
      for (size_t i : {size_t{3}, size_t{4}}) {
        const graph::Value& past = graph.value(node.inputs[i]);
        const ValueId present = node.output(i - 2);
        fits = fits && past.is_input && past.consumers.size() == 1 && past.declared &&
               past.declared->size() == 4 && (*past.declared)[2].value < 0 && present != kNone &&
               graph.value(present).consumers.empty() && graph.IsOutput(present);
      }
      if (!fits) continue;
      node.attributes["sliding_window_cache"] = int64_t{1};
    }
    // A cache of a declared size keeps what it can.
    const auto& declared = graph.value(node.inputs[3]).declared;
    const int64_t rows = declared && declared->size() == 4 ? (*declared)[2].value : -1;
    node.attributes[std::string(kernels::kWindowKeepAttribute)] =
        rows < 0 ? WindowKeep(window) : std::max(window, std::min(rows, WindowKeep(window)));
  }
}

int64_t Decoder::Window::FirstToken(int64_t tokens) const {
  return tokens - kernels::WindowedRows(tokens, capacity, keep);
}

void Decoder::Recognise(const ModelSource& source, const graph::Graph& graph) {
  const TensorNames& names = source.names;
  const auto fail = [&](const auto&... parts) {
    Throw(Code::kUnsupported, source.name, " is not a language model that can be run: ", parts...);
  };
  logits_name_ = names.logits;
  if (!HasOutput(graph, logits_name_)) fail("the graph has no output ", logits_name_);
  bool ids = false;
  std::string left;
  for (ValueId v : graph.inputs) {
    const graph::Value& value = graph.value(v);
    Input in;
    in.dtype = value.dtype;
    in.rank = value.declared ? static_cast<int>(value.declared->size()) : 2;
    if (value.name == names.input_ids) {
      in.role = Role::kIds;
      ids = true;
    } else if (value.name == names.attention_mask) {
      in.role = Role::kMask;
      in.mask_length = MaskLength(graph, names);
      in.fixed_mask = in.mask_length > 0;
      if (!in.fixed_mask) in.mask_length = context_;
      if (in.mask_length < context_)
        fail("its attention mask is fixed at ", in.mask_length, " tokens; use --context ", in.mask_length);
    } else if (value.name == names.position_ids) {
      in.role = Role::kPositions;
    } else if (value.name == kLongContextInput) {
      in.role = Role::kLongContext;
    } else if (value.name == "use_cache_branch") {
      in.role = Role::kCacheBranch;
    } else if (value.name == "num_logits_to_keep") {
      in.role = Role::kLogitsToKeep;
    } else if (value.name == "past_sequence_length" || value.name == "past_key_values_length") {
      in.role = Role::kPast;
    } else if (value.name == "total_sequence_length") {
      in.role = Role::kTotal;
    } else if (value.name == "current_sequence_length") {
      in.role = Role::kSequence;
    } else {
      in.role = Role::kState;
      session::StateSpec state;
      state.input = value.name;
      state.output = PresentOf(graph, names, value.name);
      if (state.output.empty() || !value.declared) {
        left += (left.empty() ? "" : ", ") + value.name;
        continue;
      }
      const graph::DeclaredShape& shape = *value.declared;
      const graph::Node* windowed = WindowedReader(graph, v);
      const int64_t window = windowed ? windowed->Int("local_window_size", 0) : 0;
      state.grows = shape.size() == 4 && shape[2].value < 0 && !windowed;
      StateShape follows;
      for (size_t i = 0; i < shape.size(); ++i) {
        int64_t dim = shape[i].value;
        if (i == 0 && dim < 0) dim = 1;
        if (shape.size() == 4 && i == 1 && dim < 0) dim = source.kv_heads;
        if (shape.size() == 4 && i == 3 && dim < 0) dim = source.head_size;
        if (shape.size() == 4 && i == 2 && dim < 0) {
          follows.rows_axis = 2;
          follows.window = window;
          dim = context_;
        }
        if (dim <= 0) fail("nothing says how large dimension ", i, " of ", value.name, " is");
        follows.fixed.push_back(dim);
      }
      state.max_shape = follows.For(context_);
      state_shapes_.push_back(std::move(follows));
      if (windowed && state.max_shape.rank() == 4)
        windows_.push_back(
            {state.input, window, windowed->Int(kernels::kWindowKeepAttribute, window), state.max_shape[2]});
      else
        can_rewind_ = can_rewind_ && state.grows;
      states_.push_back(std::move(state));
    }
    if (!options_.plan_only) in.data.resize(InputBytes(in, context_, chunk_));
    inputs_.push_back(std::move(in));
  }
  if (!ids) {
    if (graph.FindValue(names.inputs_embeds) != kNone)
      fail("it takes embeddings (", names.inputs_embeds, "), not token ids");
    fail("the graph has no input ", names.input_ids);
  }
  if (!left.empty()) fail("nothing is known to feed the inputs ", left);
  if (states_.empty()) fail("the graph keeps no past (no past_key_values inputs)");
  // The vocabulary: last dimension of the logits, as proved for a run of one token.
  ops::SymbolTable table;
  const auto facts = shapes::Propagate(graph, Facts(graph, table, context_, 1), {}, table);
  for (ValueId v : graph.outputs)
    if (graph.value(v).name == logits_name_) {
      const auto& s = facts.of(v).shape;
      if (s.rank < 2 || !s.at(-1).exact()) fail("the size of its vocabulary is not known");
      vocabulary_ = s.at(-1).upper;
    }
}

std::vector<ops::ValueFacts> Decoder::Facts(const graph::Graph& graph, ops::SymbolTable& table,
                                            int64_t context, int64_t most_new) const {
  using ops::Bound;
  using ops::BoundedShape;
  const Bound one = Bound::Exactly(1);
  const Bound fresh = most_new == 1 ? one : table.Symbol("sequence", 1, most_new);
  const Bound past = table.Symbol("past", 0, context - 1);
  const ops::BoundMath math(&table);
  Bound total = math.Add(past, fresh);
  if (total.expr != ops::kNoExpr) table.Restrict(total.expr, 1, context);
  total = math.Add(past, fresh);
  std::vector<ops::ValueFacts> facts;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Input& in = inputs_[i];
    ops::ValueFacts f;
    f.dtype = graph.value(graph.inputs[i]).dtype;
    switch (in.role) {
      case Role::kIds:
        f.shape = BoundedShape::OfDims({one, fresh});
        break;
      case Role::kMask:
        f.shape = BoundedShape::OfDims({one, in.fixed_mask ? Bound::Exactly(in.mask_length) : total});
        break;
      case Role::kPositions:
        f.shape = in.rank == 3 ? BoundedShape::OfDims({Bound::Exactly(3), one, fresh})
                               : BoundedShape::OfDims({one, fresh});
        break;
      case Role::kLongContext:
        f.shape = BoundedShape::Scalar();
        break;
      case Role::kCacheBranch:
        f.shape = BoundedShape::OfDims({one});
        break;
      case Role::kLogitsToKeep:
      case Role::kPast:
      case Role::kTotal:
      case Role::kSequence:
        f.shape = in.rank == 0 ? BoundedShape::Scalar() : BoundedShape::OfDims({one});
        if (in.rank == 2) f.shape.push_back(one);
        break;
      case Role::kState: {
        for (size_t k = 0; k < states_.size(); ++k)
          if (states_[k].input == graph.value(graph.inputs[i]).name) {
            f.shape = BoundedShape::Of(state_shapes_[k].For(context));
            if (states_[k].grows) f.shape[2] = past;
          }
        break;
      }
    }
    facts.push_back(std::move(f));
  }
  return facts;
}

void Decoder::Feed(std::span<const int32_t> ids, const std::atomic<bool>* stop) {
  const auto have = static_cast<int64_t>(tokens_.size()), more = static_cast<int64_t>(ids.size());
  if (have + more > context_)
    Throw(Code::kInvalidInput, "the prompt has ", have + more, " tokens, more than the context of ",
          context_);
  for (int32_t id : ids)
    if (id < 0 || id >= vocabulary_)
      Throw(Code::kInvalidInput, "token id ", id, " is not in the vocabulary of ", vocabulary_);
  if (long_threshold_ > 0) {
    // Beyond the threshold all positions use the long tables. Keys that were made with the short ones are
    // made anew where onnxruntime-genai does so, too: for models of 4096 tokens and more. Others run as the
    // graph says.
    const bool wanted = have + more > long_threshold_;
    if (wanted != long_context_) {
      long_context_ = wanted;
      if (have > 0 && long_threshold_ >= 4096) {
        replay_.assign(tokens_.begin(), tokens_.end());
        session_->ResetStates();
        tokens_.clear();
        for (size_t at = 0; at < replay_.size(); at += static_cast<size_t>(chunk_))
          Run(std::span(replay_).subspan(at, std::min(replay_.size() - at, static_cast<size_t>(chunk_))),
              stop);
      }
    }
  }
  for (size_t at = 0; at < ids.size(); at += static_cast<size_t>(chunk_))
    Run(ids.subspan(at, std::min(ids.size() - at, static_cast<size_t>(chunk_))), stop);
}

void Decoder::Run(std::span<const int32_t> ids, const std::atomic<bool>* stop) {
  const auto past = static_cast<int64_t>(tokens_.size()), fresh = static_cast<int64_t>(ids.size()),
             total = past + fresh;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Input& in = inputs_[i];
    if (in.role == Role::kState) continue;
    TensorView& view = execution_.inputs()[i];
    view.dtype = in.dtype;
    view.data = in.data.data();
    const auto scalar = [&](int64_t n) {
      view.shape = in.rank == 0 ? Shape{} : in.rank == 2 ? Shape{1, 1} : Shape{1};
      FillAs(in.dtype, in.data, 1, [&](int64_t) { return n; });
    };
    switch (in.role) {
      case Role::kIds:
        view.shape = {1, fresh};
        FillAs(in.dtype, in.data, fresh, [&](int64_t k) { return ids[static_cast<size_t>(k)]; });
        break;
      case Role::kMask:
        view.shape = {1, in.fixed_mask ? in.mask_length : total};
        FillAs(in.dtype, in.data, view.shape[1], [&](int64_t k) { return k < total ? 1 : 0; });
        break;
      case Role::kPositions:
        view.shape = in.rank == 3 ? Shape{3, 1, fresh} : Shape{1, fresh};
        FillAs(in.dtype, in.data, view.shape.elements(), [&](int64_t k) { return past + k % fresh; });
        break;
      case Role::kLongContext:
        view.shape = {};
        in.data[0] = std::byte{long_context_};
        break;
      case Role::kCacheBranch:
        view.shape = {1};
        in.data[0] = std::byte{past > 0};
        break;
      case Role::kLogitsToKeep:
        scalar(session_->spec().last_token_output.empty() ? 0 : 1);
        break;
      case Role::kPast:
        scalar(past);
        break;
      case Role::kTotal:
        scalar(total);
        break;
      case Role::kSequence:
        scalar(fresh);
        break;
      case Role::kState:
        break;
    }
  }
  execution_.Run(fresh == 1 && !single_profile_ ? 1 : 0, stop);
  tokens_.insert(tokens_.end(), ids.begin(), ids.end());
}

int64_t Decoder::logit_rows() const {
  const TensorView& out = execution_.output(logits_index_);
  return vocabulary_ > 0 ? out.shape.elements() / vocabulary_ : 0;
}

namespace {
void ToFloat(const TensorView& view, int64_t first, int64_t count, float* out) {
  switch (view.dtype) {
    case DType::kFloat:
      std::memcpy(out, view.as<float>() + first, static_cast<size_t>(count) * sizeof(float));
      break;
    case DType::kFloat16:
      for (int64_t i = 0; i < count; ++i) out[i] = HalfToFloat(view.as<uint16_t>()[first + i]);
      break;
    case DType::kBFloat16:
      for (int64_t i = 0; i < count; ++i) out[i] = BFloat16ToFloat(view.as<uint16_t>()[first + i]);
      break;
    default:
      Throw(Code::kUnsupported, "logits of type ", NameOf(view.dtype));
  }
}
}  // namespace

std::span<const float> Decoder::logits() {
  const TensorView& out = execution_.output(logits_index_);
  const int64_t first = (logit_rows() - 1) * vocabulary_;
  if (out.dtype == DType::kFloat) return {out.as<float>() + first, static_cast<size_t>(vocabulary_)};
  ToFloat(out, first, vocabulary_, row_.data());
  return row_;
}

void Decoder::CopyLogits(float* out) {
  const TensorView& view = execution_.output(logits_index_);
  ToFloat(view, 0, view.shape.elements(), out);
}

int64_t Decoder::Rewind(int64_t count) {
  count = std::min(count, static_cast<int64_t>(tokens_.size()));
  if (count == static_cast<int64_t>(tokens_.size())) return count;
  if (!can_rewind_ || count == 0 || (long_context_ && count <= long_threshold_)) {
    session_->ResetStates();
    tokens_.clear();
    return 0;
  }
  const auto have = static_cast<int64_t>(tokens_.size());
  for (const Window& w : windows_) {
    const int64_t first = w.FirstToken(have);
    if (first == 0 || first <= count - w.sees + 1) continue;
    session_->ResetStates();
    tokens_.clear();
    return 0;
  }
  // Rows lie as if no more tokens had been seen; those before `first` are out of every window.
  for (const Window& w : windows_) {
    const int64_t first = w.FirstToken(have), moved = first - w.FirstToken(count);
    if (moved > 0) session_->MoveStateRows(w.input, 0, moved, count - first);
  }
  session_->SetStateRows(count);
  tokens_.resize(static_cast<size_t>(count));
  return count;
}

}  // namespace ullage::llm
