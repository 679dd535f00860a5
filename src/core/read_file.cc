#include "core/read_file.h"

#include <fstream>
#include <sstream>

#include "core/error.h"

namespace ullage {

std::string ReadFile(const std::filesystem::path& path, Code failure) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);  // fails for pipes, which have none
  if (!error && size > kMostFileText)
    Throw(failure, path.string(), " is larger than ", kMostFileText, " bytes");
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  // Inserting nothing sets the fail bit, so an empty file is not asked for its bytes.
  if (in && in.peek() != std::ifstream::traits_type::eof()) text << in.rdbuf();
  if (!in.is_open() || in.bad() || text.fail() || std::filesystem::is_directory(path, error))
    Throw(failure, "cannot read ", path.string());
  return std::move(text).str();
}

}  // namespace ullage
