/// A strict pull parser for JSON, for the parts of a tokenizer file that are too large for a document tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ullage::llm {

/// Walks once over a JSON text, which must be valid UTF-8 and outlive the scanner. Every violation of the
/// grammar, nesting of more than 64 levels and lone surrogates throw Error(kInvalidModel) with `name` and the
/// byte position.
class JsonScanner {
 public:
  JsonScanner(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  /// First character of the next value: one of {["tfn-0..9.
  char Peek();
  /// Calls on_member(key) for each member; it must consume the value. The key is valid until then.
  template <class Fn>
  void Object(const Fn& on_member) {
    Open('{');
    std::string key;
    if (!Close('}')) {
      do {
        key = String();
        Expect(':');
        on_member(std::string_view(key));
      } while (More('}'));
    }
    --depth_;
  }
  /// Calls on_element() for each element; it must consume the value.
  template <class Fn>
  void Array(const Fn& on_element) {
    Open('[');
    if (!Close(']')) {
      do {
        on_element();
      } while (More(']'));
    }
    --depth_;
  }
  /// Valid until the next call of String().
  std::string_view String();
  int64_t Integer();
  double Number();
  /// Passes over a value and returns its text.
  std::string_view Skip();
  /// The same by brackets and quotes alone, for a large object or array that will be read properly later.
  std::string_view SkipQuickly();
  /// Throws unless nothing but space is left.
  void End();

  [[noreturn]] void Fail(std::string_view what) const;

 private:
  void Space();
  void Expect(char c);
  void Open(char c);
  bool Close(char c);
  bool More(char close);
  void SkipLiteral(std::string_view word);
  std::string_view NumberText();
  uint32_t Hex4();

  std::string_view text_;
  std::string_view name_;
  size_t pos_ = 0;
  int depth_ = 0;
  std::string unescaped_;
};

}  // namespace ullage::llm
