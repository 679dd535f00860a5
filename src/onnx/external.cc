#include <filesystem>
#include <system_error>

#include "core/error.h"
#include "onnx/tensor_pb.h"

namespace ullage::onnx {
namespace fs = std::filesystem;

namespace {

/// Whether the folder that holds `path` really lies inside `base`, links resolved. A file that is itself a
/// link may lead anywhere: model caches are built that way.
bool FolderInside(const fs::path& base, const fs::path& path) {
  std::error_code error;
  const fs::path real_base = fs::canonical(base, error);
  if (error) return true;  // nothing there: opening will say so
  const fs::path real_folder = fs::canonical(path.parent_path(), error);
  if (error) return true;
  const fs::path relative = real_folder.lexically_relative(real_base);
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

const ExternalFiles::Result& ExternalFiles::Open(std::string_view location, const std::string& where) {
  if (const auto it = files_.find(location); it != files_.end()) return it->second;
  const auto refuse = [&](const char* why) {
    Throw(Code::kInvalidModel, where, ": external data location \"", location, "\" ", why);
  };
  if (location.empty()) refuse("is empty");
  if (location.find('\0') != std::string_view::npos) refuse("holds a NUL character");
  const fs::path relative{std::string(location)};
  if (relative.is_absolute()) refuse("is absolute; it must lie beside the model");
  for (const fs::path& part : relative)
    if (part == "..") refuse("leads out of the model's folder");
  const fs::path base = folder_.empty() ? fs::path(".") : fs::path(folder_);
  const fs::path path = base / relative;
  if (relative.has_parent_path() && !FolderInside(base, path))
    refuse("leads out of the model's folder through a link");

  Result result;
  result.path = path.string();
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    result.problem = error && error != std::errc::no_such_file_or_directory ? error.message()
                     : fs::exists(path, error)                              ? "it is not a regular file"
                                                                            : "the file is missing";
  } else {
    try {
      result.file = MappedFile::Open(result.path);
    } catch (const Error& e) {
      result.problem = e.message();
    }
  }
  return files_.emplace(std::string(location), std::move(result)).first->second;
}

}  // namespace ullage::onnx
