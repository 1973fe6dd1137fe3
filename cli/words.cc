// SPDX-License-Identifier: Apache-2.0
#include "words.h"

#include <algorithm>

#include "snug/error.h"
#include "terminal.h"

namespace snug::cli {

bool parse_words(CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> reversed(words.rbegin(),
                                    words.rend());  // CLI11 takes them from the back
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    print(app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::bad_config, app.get_name(), error.what(),
                "`" + app.get_name() + " --help` lists the options");
  }
  refuse_empty_values(app, "the value is empty");
  return true;
}

void refuse_empty_values(const CLI::App& app, const std::string& what) {
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string>& values = option->results();
    if (!option->get_positional() && std::count(values.begin(), values.end(), "") > 0)
      throw Error(ErrorCode::bad_config, option->get_name(), what,
                  "omit " + option->get_name() + ", or give it a value");
  }
}

}  // namespace snug::cli
