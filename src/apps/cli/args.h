/// Command-line arguments.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ullage::cli {

/// Arguments of one command. Flags that were not asked for by the command are a usage error naming the
/// nearest one.
class Args {
 public:
  /// `with_value` and `switches` are the flags that the command knows, written with their dashes. A value
  /// follows its flag, or stands behind '='. "--" ends the flags.
  Args(const std::vector<std::string>& arguments, std::set<std::string> with_value,
       std::set<std::string> switches);

  const std::vector<std::string>& positional() const { return positional_; }
  /// The only positional argument; throws kUsage saying what is missing.
  const std::string& Model() const;
  bool Has(const std::string& flag) const { return values_.count(flag) > 0 || on_.count(flag) > 0; }
  std::optional<std::string> Value(const std::string& flag) const;
  /// All values of a flag that may be repeated, in order.
  std::vector<std::string> Values(const std::string& flag) const;
  int64_t Int(const std::string& flag, int64_t def, int64_t least = INT64_MIN) const;
  double Number(const std::string& flag, double def) const;

 private:
  std::vector<std::string> positional_;
  std::map<std::string, std::vector<std::string>> values_;
  std::set<std::string> on_;
};

/// "1,2,3" as integers of 32 bits; throws kUsage naming the part that is none.
std::vector<int32_t> ParseIds(std::string_view text, std::string_view flag);

}  // namespace ullage::cli
