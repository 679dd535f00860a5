#include "session/residency.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/checked.h"
#include "core/error.h"
#include "graph/absent.h"
#include "graph/constant_pages.h"

namespace ullage::session {

Residency ParseResidency(const std::string& text) {
  if (text == "mapped") return {};
  if (text == "copied") return {true, false};
  if (text == "locked") return {false, true};
  if (text == "copied_locked") return {true, true};
  Throw(Code::kUsage,
        "option session.weights_resident: expected mapped, copied, locked or copied_locked, found \"", text,
        "\"");
}

void ResidentWeights::Add(const std::string& name, const graph::Constant& constant, graph::NodeId node) {
  const auto [it, fresh] = data_.try_emplace(graph::DataKey(constant));
  Data& data = it->second;
  if (fresh)
    data = {{name, static_cast<int64_t>(constant.size_bytes), node}, {}, !constant.file.empty()};
  else if (data.weight.node != node)
    data.weight.node = graph::kNone;
  auto* const holder = const_cast<graph::Constant*>(&constant);
  if (std::find(data.holders.begin(), data.holders.end(), holder) == data.holders.end())
    data.holders.push_back(holder);
}

int64_t ResidentWeights::BytesOf(const Data& data) const {
  return residency_.copied && data.mapped ? AlignUp(data.weight.bytes, kAlignment) : data.weight.bytes;
}

std::vector<ResidentWeights::Weight> ResidentWeights::weights() const {
  std::vector<Weight> all;
  for (const auto& [key, data] : data_) {
    all.push_back(data.weight);
    all.back().bytes = BytesOf(data);
  }
  return all;
}

int64_t ResidentWeights::mapped_bytes() const {
  int64_t bytes = 0;
  for (const auto& [key, data] : data_)
    if (data.mapped && !residency_.copied) bytes = CheckedAdd(bytes, data.weight.bytes);
  return bytes;
}

void ResidentWeights::Load(const memory::RegionOptions& options, ThreadTeam& team) {
  if (!residency_.copied) return;
  int64_t total = 0;
  for (const auto& [key, data] : data_)
    if (data.mapped) total = CheckedAdd(total, BytesOf(data), "size of weights");
  if (total == 0) return;
  if (const int64_t available = memory::AvailableHostBytes(); total > available)
    Throw(Code::kDoesNotFit, "cannot reserve ", total, " bytes of host memory for weights: only ", available,
          " are available");
  copies_ = std::make_shared<memory::HostRegion>(static_cast<size_t>(total), options);
  constexpr int64_t kPiece = int64_t{1} << 20;
  std::byte* to = copies_->data();
  for (auto& [key, data] : data_) {
    if (!data.mapped) continue;
    const graph::Constant& source = *data.holders.front();
    const auto from = source.data();
    const auto bytes = static_cast<int64_t>(from.size());
    graph::WillNeedPages(source);
    team.Run(CeilDiv(bytes, kPiece), [&](int64_t piece, int) {
      const int64_t first = piece * kPiece, last = std::min(bytes, first + kPiece);
      std::memcpy(to + first, from.data() + first, static_cast<size_t>(last - first));
      graph::ReleasePages(source, first, last);
    });
    maps_.push_back(source.owner);
    for (graph::Constant* holder : data.holders) {
      holder->bytes = to;
      holder->owner = std::shared_ptr<const void>(copies_, to);
      holder->file.clear();
      holder->file_offset = 0;
    }
    to += BytesOf(data);
  }
}

std::string ResidentWeights::Lock() const {
  for (const auto& [key, data] : data_) {
    const graph::Constant& c = *data.holders.front();
    if (auto failure = LockPages({c.bytes, c.bytes ? c.size_bytes : 0}, "weights"); !failure.empty())
      return failure;
  }
  return "";
}

std::string LockPages(std::span<const std::byte> bytes, const char* what) {
  const auto pages = graph::PagesAround(bytes);
  if (pages.empty() || ::mlock(pages.data(), pages.size()) == 0) return "";
  const int error = errno;
  rlimit limit = {};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string most =
      limit.rlim_cur == RLIM_INFINITY ? "any number of" : StrCat(static_cast<uint64_t>(limit.rlim_cur));
  return StrCat("cannot lock ", pages.size(), " bytes of ", what, " in memory: ", std::strerror(error),
                "; the process may lock ", most, " bytes in all (ulimit -l)");
}

}  // namespace ullage::session
