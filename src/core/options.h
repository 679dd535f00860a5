/// The one registry of string-keyed options, with types, defaults and docs.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ullage {

enum class OptionType { kBool, kInt, kSize, kString };

struct OptionSpec {
  std::string_view key;
  OptionType type;
  std::string_view default_value;
  std::string_view doc;
};

/// Every key, in alphabetical order, those of the option source included. The texts live as long as the
/// process.
std::vector<OptionSpec> AllOptions();

/// Adds a key for good; the texts are copied. Throws kUsage when the key is taken or the default is no value
/// of the type. Thread-safe.
void RegisterOption(const OptionSpec& spec);
/// `source` registers further keys: called once, when a key is asked for that nobody knows, or when all are
/// listed. Set when the program starts.
void SetOptionSource(void (*source)());

/// Values by key. Set() refuses unknown keys (naming the nearest one) and values of the wrong type with
/// kUsage.
class OptionBag {
 public:
  void Set(std::string_view key, std::string_view value);
  /// "key=value".
  void SetPair(std::string_view pair);
  bool Has(std::string_view key) const { return values_.find(key) != values_.end(); }

  /// Those that were set.
  const std::map<std::string, std::string, std::less<>>& values() const { return values_; }

  /// The value, or the registered default.
  std::string Str(std::string_view key) const;
  bool Bool(std::string_view key) const;
  int64_t Int(std::string_view key) const;
  /// Bytes.
  int64_t Size(std::string_view key) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

/// "512MiB", "6GiB", "1.5GB", "4096" in bytes; anything else throws kUsage.
int64_t ParseSize(std::string_view text);
/// "1.5 GiB", for people.
std::string FormatSize(int64_t bytes);
/// The candidate with the smallest edit distance to `word`.
std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace ullage
