#include "placement/layer_names.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace ullage::placement {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Words that end in one of these mean a layer; a digit may follow them at once.
constexpr std::array<std::string_view, 4> kEndings = {"layers", "layer", "blocks", "block"};
/// These must be the whole word, with a separator behind them.
constexpr std::array<std::string_view, 2> kWhole = {"h", "blk"};

bool MeansLayer(std::string_view word, bool separated) {
  for (std::string_view ending : kEndings) {
    if (word.size() < ending.size()) continue;
    const std::string_view tail = word.substr(word.size() - ending.size());
    if (std::equal(tail.begin(), tail.end(), ending.begin(),
                   [](char a, char b) { return a == b || a + ('a' - 'A') == b; }))
      return true;
  }
  return separated && std::find(kWhole.begin(), kWhole.end(), word) != kWhole.end();
}

}  // namespace

std::optional<LayerName> FindLayer(std::string_view name) {
  for (size_t i = 0; i < name.size(); ++i) {
    if (!IsDigit(name[i]) || (i > 0 && IsDigit(name[i - 1]))) continue;
    const bool separated = i > 0 && (name[i - 1] == '.' || name[i - 1] == '_' || name[i - 1] == '/');
    const size_t word_end = separated ? i - 1 : i;
    size_t word = word_end;
    while (word > 0 && IsWord(name[word - 1])) --word;
    if (word == word_end || !MeansLayer(name.substr(word, word_end - word), separated)) continue;
    size_t end = i;
    while (end < name.size() && IsDigit(name[end])) ++end;
    LayerName layer;
    if (std::from_chars(name.data() + i, name.data() + end, layer.number).ec != std::errc()) continue;
    layer.begin = word;
    layer.number_begin = i;
    layer.number_end = end;
    return layer;
  }
  return std::nullopt;
}

std::string PathOfModule(std::string_view dotted) {
  std::string path = "/";
  for (size_t i = 0; i < dotted.size(); ++i) {
    const bool before_number = dotted[i] == '.' && i + 1 < dotted.size() && IsDigit(dotted[i + 1]);
    path += dotted[i] == '.' && !before_number ? '/' : dotted[i];
  }
  if (path.size() > 1) path += '/';
  return path;
}

namespace {

/// Strings of a Python list: ['', 'm', "m.model"].
std::vector<std::string> PythonStrings(std::string_view text) {
  std::vector<std::string> all;
  for (size_t i = 0; i < text.size(); ++i) {
    const char quote = text[i];
    if (quote != '\'' && quote != '"') continue;
    std::string item;
    for (++i; i < text.size() && text[i] != quote; ++i) {
      if (text[i] == '\\' && i + 1 < text.size()) ++i;
      item += text[i];
    }
    all.push_back(std::move(item));
  }
  return all;
}

/// The names before the colons of "a: Class/a.b: Class/op: kind".
std::vector<std::string> NamespaceNames(std::string_view text) {
  std::vector<std::string> all;
  for (size_t at = 0; at < text.size();) {
    const size_t colon = text.find(": ", at);
    if (colon == std::string_view::npos) break;
    all.emplace_back(text.substr(at, colon - at));
    const size_t slash = text.find('/', colon);
    if (slash == std::string_view::npos) break;
    at = slash + 1;
  }
  return all;
}

}  // namespace

std::vector<std::string> ScopesOfMetadata(const graph::Node& node) {
  std::vector<std::string> names;
  if (const auto it = node.metadata.find("pkg.torch.onnx.name_scopes"); it != node.metadata.end())
    names = PythonStrings(it->second);
  if (names.empty())
    if (const auto it = node.metadata.find("namespace"); it != node.metadata.end())
      names = NamespaceNames(it->second);
  if (names.empty()) return {};
  // The last name is the operation, the one before it the innermost module.
  const std::string operation = names.back();
  names.pop_back();
  const std::string module = names.empty() ? "" : names.back();
  return {PathOfModule(module) + operation, module};
}

bool IsScopeless(std::string_view name) {
  return name.find('/') == std::string_view::npos && name.find('.') == std::string_view::npos;
}

}  // namespace ullage::placement
