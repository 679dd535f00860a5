/// Prepacked weights kept in a file, so that the next session over the same model maps them and packs nothing
/// (option session.prepacked_cache).
///
/// A file is named by the hash of its key: everything that decides about the bytes (see PrepackedKey). It
/// holds the key, the packed region as sessions lay it out, and a checksum of each part; it is written beside
/// its place and renamed, and read only after all of it was compared. What does not match is written anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/mapped_file.h"
#include "core/thread_team.h"
#include "graph/graph.h"
#include "kernels/kernel.h"

namespace ullage::session {

/// Collects what the packed bytes depend on: this program, the processor's features, each block's layout and
/// place, and the identity of the constants that it was made from: for those in files path, size, time of the
/// last change and samples of the contents; for those that were computed their contents.
class PrepackedKey {
 public:
  PrepackedKey();
  void AddBlock(int64_t offset, size_t bytes, std::string_view layout,
                std::span<const graph::Constant* const> sources);
  const std::string& text() const { return text_; }
  /// Name of the file in `folder`.
  std::string PathIn(const std::string& folder) const;

 private:
  void AddFile(const std::string& path);
  std::string text_;
  std::string last_file_;
};

/// What the kernel of `node` says about the layout of block `index`; where it says nothing, all attributes of
/// the node.
std::string LayoutText(const graph::Node& node, const kernels::PrepackRequirement& requirement, size_t index);

/// 64-bit hash of bytes for files of our own: no defence against an adversary.
uint64_t HashOf(std::span<const std::byte> bytes, uint64_t seed = 0);

/// The file, if it is there, whole, and of that key, marked as used now; its region starts at `*region`,
/// aligned to a page.
std::shared_ptr<const MappedFile> OpenPrepacked(const std::string& path, const std::string& key, size_t bytes,
                                                ThreadTeam& team, const std::byte** region);
/// Writes the file; makes the folder when it is missing. Returns what went wrong, or nothing. Leaves no
/// partial file behind.
std::optional<std::string> WritePrepacked(const std::string& path, const std::string& key,
                                          std::span<const std::byte> region, ThreadTeam& team);

/// Makes the cache files beside `path` take at most `limit` bytes together: those go that were opened longest
/// ago, never `path`; so do partial files that somebody left behind an hour ago or earlier.
void PrunePrepacked(const std::string& path, int64_t limit);

}  // namespace ullage::session
