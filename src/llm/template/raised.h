/// The error of a template's raise_exception().
#pragma once

#include <string>
#include <utility>

#include "ullage/error.h"

namespace ullage::llm::jinja {

struct Raised : Error {
  explicit Raised(std::string message) : Error(Code::kInvalidInput, std::move(message)) {}
};

}  // namespace ullage::llm::jinja
