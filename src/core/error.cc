#include "core/error.h"

namespace ullage {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kUsage:
      return "usage";
    case Code::kInvalidModel:
      return "invalid_model";
    case Code::kInvalidInput:
      return "invalid_input";
    case Code::kDoesNotFit:
      return "does_not_fit";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kRuntime:
      return "runtime";
    case Code::kBusy:
      return "busy";
    case Code::kInterrupted:
      return "interrupted";
  }
  return "runtime";
}

int ExitStatus(Code code) {
  switch (code) {
    case Code::kUsage:
      return 2;
    case Code::kInvalidModel:
    case Code::kInvalidInput:
      return 3;
    case Code::kDoesNotFit:
      return 4;
    case Code::kUnsupported:
      return 5;
    case Code::kRuntime:
    case Code::kBusy:
      return 6;
    case Code::kInterrupted:
      return 130;
  }
  return 6;
}

}  // namespace ullage
