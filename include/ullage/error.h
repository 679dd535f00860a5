/// Errors. Everything that can go wrong because of a model, an input, an option or the machine is reported as
/// an ullage::Error; asserts are for our own mistakes only. Exceptions never cross the plugin ABI.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace ullage {

/// What kind of failure it is. The command line maps each to an exit status and a JSON code.
enum class Code {
  kUsage,         ///< exit 2: unknown option, bad value, bad combination
  kInvalidModel,  ///< exit 3: the model file is broken
  kInvalidInput,  ///< exit 3: an input tensor, prompt, template or request is wrong
  kDoesNotFit,    ///< exit 4: more memory needed than the limit allows
  kUnsupported,   ///< exit 5: operator, type, format or feature that is not built
  kRuntime,       ///< exit 6: failed while running
  kBusy,          ///< exit 6: the session is running already
  kInterrupted,   ///< exit 130
};

/// The code as written in JSON, e.g. "does_not_fit".
std::string_view CodeName(Code code);
/// The exit status of the command line.
int ExitStatus(Code code);

/// `what()` is one line for a person; it names the culprit (file, node, input, option), what was expected and
/// what was found. `details_json()` is a JSON object for programs ("{}" when there is nothing to add).
class Error : public std::exception {
 public:
  Error(Code code, std::string message, std::string details_json = "{}")
      : code_(code), message_(std::move(message)), details_json_(std::move(details_json)) {}

  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& details_json() const { return details_json_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  Code code_;
  std::string message_;
  std::string details_json_;
};

}  // namespace ullage
