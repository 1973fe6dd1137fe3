// SPDX-License-Identifier: Apache-2.0
#include "streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>

namespace snug::cli {

void open_closed_streams() {
  // open() takes the lowest free descriptor: in this order, the closed one itself.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    if (::open("/dev/null", O_RDWR) < 0) return;
  }
}

std::string unwritten_stream() {
  std::cout.flush();
  std::cerr.flush();
  const bool is_out_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!is_out_written || !std::cout) return "standard output";
  const bool is_error_written = std::fflush(stderr) == 0 && std::ferror(stderr) == 0;
  if (!is_error_written || !std::cerr) return "standard error";
  return {};
}

}  // namespace snug::cli
