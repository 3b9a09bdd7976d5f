// The one exception type of the library.
#pragma once

#include <stdexcept>
#include <string>

namespace samebits {

/// What kind of mistake an Error reports; bindings map it to their own exception types.
enum class ErrorCode {
  kInvalidArgument,  ///< a value, shape or stride that is not allowed (Python: ValueError)
  kType,             ///< a wrong or mixed dtype (Python: TypeError)
  kUnsupported,      ///< the request is well formed but no backend here can run it (Python: RuntimeError)
};

/// Thrown by every entry point, before anything is written.
///
/// `what()` reads "ARGUMENT: what it was; what it may be".
class Error : public std::runtime_error {
 public:
  /// `argument` names the offending argument; `reason` says what it was and what it may be.
  Error(ErrorCode code, std::string argument, const std::string& reason)
      : std::runtime_error(argument + ": " + reason), code_(code), argument_(std::move(argument)) {}

  /// The kind of mistake.
  ErrorCode code() const noexcept { return code_; }
  /// The argument at fault, as the signature spells it.
  const std::string& argument() const noexcept { return argument_; }

 private:
  ErrorCode code_;
  std::string argument_;
};

}  // namespace samebits
