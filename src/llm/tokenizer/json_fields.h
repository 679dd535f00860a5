/// Reads the members of small JSON objects with errors that name them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.h"

namespace ullage::llm {

/// The member, or null if it is absent or null. Throws Error(kInvalidModel) if `object` is no object.
inline const nlohmann::json* FindField(const nlohmann::json& object, const char* key,
                                       std::string_view where) {
  if (!object.is_object())
    Throw(Code::kInvalidModel, where, ": expected an object, found ", object.type_name());
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

inline const nlohmann::json& RequireField(const nlohmann::json& object, const char* key,
                                          std::string_view where) {
  const nlohmann::json* field = FindField(object, key, where);
  if (field == nullptr) Throw(Code::kInvalidModel, where, ": '", key, "' is missing");
  return *field;
}

[[noreturn]] inline void FailField(const nlohmann::json& field, const char* key, const char* expected,
                                   std::string_view where) {
  Throw(Code::kInvalidModel, where, ": '", key, "' must be ", expected, ", found ", field.type_name());
}

inline bool BoolField(const nlohmann::json& object, const char* key, bool otherwise, std::string_view where) {
  const nlohmann::json* field = FindField(object, key, where);
  if (field == nullptr) return otherwise;
  if (!field->is_boolean()) FailField(*field, key, "true or false", where);
  return field->get<bool>();
}

inline std::optional<std::string> OptionalString(const nlohmann::json& object, const char* key,
                                                 std::string_view where) {
  const nlohmann::json* field = FindField(object, key, where);
  if (field == nullptr) return std::nullopt;
  if (!field->is_string()) FailField(*field, key, "a string", where);
  return field->get<std::string>();
}

inline std::string StringField(const nlohmann::json& object, const char* key, std::string_view where) {
  RequireField(object, key, where);
  return *OptionalString(object, key, where);
}

/// An integer in [low, high].
inline int64_t IntegerField(const nlohmann::json& object, const char* key, int64_t low, int64_t high,
                            std::string_view where) {
  const nlohmann::json& field = RequireField(object, key, where);
  if (!field.is_number_integer() ||
      (field.is_number_unsigned() && field.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))) {
    FailField(field, key, "an integer in range", where);
  }
  const auto value = field.get<int64_t>();
  if (value < low || value > high) {
    Throw(Code::kInvalidModel, where, ": '", key, "' is ", value, "; expected ", low, " to ", high);
  }
  return value;
}

inline const nlohmann::json& ArrayField(const nlohmann::json& object, const char* key,
                                        std::string_view where) {
  const nlohmann::json& field = RequireField(object, key, where);
  if (!field.is_array()) FailField(field, key, "an array", where);
  return field;
}

}  // namespace ullage::llm
