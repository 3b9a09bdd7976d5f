// Small files that are replaced as a whole.
#pragma once

#include <string>

namespace samebits::cli {

/// Writes a temporary file beside `path`, makes it durable and renames it: after a kill or a power cut `path` holds
/// either the old contents or the new; surely the new after sync_folder_of(). A signal removes the temporary file. Throws
/// CliError naming `path`.
void replace_file(const std::string& path, const std::string& contents);

/// Makes the names in a folder durable; best effort, because some file systems refuse it.
void sync_folder_of(const std::string& path);

}  // namespace samebits::cli
