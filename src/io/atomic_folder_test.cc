// SPDX-License-Identifier: Apache-2.0
#include "io/atomic_folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "io/sha256.h"
#include "io/test_folder.h"

namespace snug::io {
namespace {

void fill(const AtomicFolder& folder, const std::string& text) {
  write_file(folder.file("weights"), text);
  make_folders(folder.file("sub"));
  write_file(folder.file("sub/state"), text);
}

void commit(const std::string& target, const std::string& text, AtomicFolderOptions options = {}) {
  AtomicFolder folder(target, std::move(options));
  fill(folder, text);
  folder.commit();
}

std::vector<std::string> steps_of(const std::string& target, bool use_exchange) {
  std::vector<std::string> steps;
  commit(target, "old",
         {.on_step = [&](std::string_view step) { steps.emplace_back(step); },
          .use_exchange = use_exchange});
  return steps;
}

TEST(AtomicFolder, appears_whole_and_replaces_whole) {
  const TestFolder root;
  const std::string target = root / "last";
  for (const bool use_exchange : {true, false}) {
    for (const char* text : {"one", "two", "three"}) {
      commit(target, text, {.use_exchange = use_exchange});
      EXPECT_TRUE(is_complete(target));
      EXPECT_EQ(read_all(target + "/sub/state", 100), text);
      EXPECT_EQ(list_folder(root.path()), std::vector<std::string>{"last"});
    }
  }
  const FileRecord three{.bytes = 5, .sha256 = sha256_of_bytes("three", 5)};
  EXPECT_EQ(read_marker(target), (FolderFiles{{"sub/state", three}, {"weights", three}}));
  EXPECT_EQ(check_folder(target), FolderCheck::by_hash);
}

TEST(AtomicFolder, without_commit_nothing_changes) {
  const TestFolder root;
  commit(root / "last", "one");
  {
    AtomicFolder folder(root / "last");
    fill(folder, "two");
    EXPECT_FALSE(is_complete(folder.path()));
  }
  EXPECT_EQ(read_all(root / "last/weights", 100), "one");
  EXPECT_EQ(list_folder(root.path()), std::vector<std::string>{"last"});
}

TEST(AtomicFolder, a_place_that_is_not_ours_is_refused) {
  const TestFolder root;
  make_folders(root / "last");
  write_file(root / "last/thesis.tex", "years of work");
  EXPECT_ERROR(AtomicFolder(root / "last"),
               "bad_config: [" + root.path() + "/last] this place is taken");
  write_file(root / "file", "");
  EXPECT_ERROR(AtomicFolder(root / "file"), "this place is taken");
  EXPECT_EQ(read_all(root / "last/thesis.tex", 100), "years of work");
  make_folders(root / "empty");
  commit(root / "empty", "one");
  EXPECT_TRUE(is_complete(root / "empty"));
}

TEST(AtomicFolder, a_link_is_refused_and_what_it_leads_to_stays_whole) {
  const TestFolder root;
  commit(root / "disk", "one");
  for (const char* to : {"disk", "nothing", "last"}) {
    ASSERT_EQ(::symlink(to, (root / "last").c_str()), 0);
    EXPECT_ERROR(AtomicFolder(root / "last"), "bad_config: [" + root.path() +
                                                  "/last] a folder would be written here, and a "
                                                  "symbolic link stands in its place");
    ASSERT_EQ(::unlink((root / "last").c_str()), 0);
  }
  // What a version that followed them left between two steps.
  ASSERT_EQ(::symlink("disk", (root / "last.snug-new").c_str()), 0);
  commit(root / "last", "two");
  EXPECT_EQ(read_all(root / "disk/weights", 100), "one");
  EXPECT_TRUE(is_complete(root / "disk"));
  EXPECT_EQ(list_folder(root.path()), (std::vector<std::string>{"disk", "last"}));
}

TEST(AtomicFolder, too_little_free_space_is_refused_at_once) {
  const TestFolder root;
  EXPECT_ERROR(AtomicFolder(root / "last", {.expected_bytes = int64_t{1} << 60}),
               "io: [" + root.path() + "/last] cannot write: ");
  EXPECT_EQ(list_folder(root.path()), std::vector<std::string>{});
}

// kill -9 just before every step of every kind of commit: afterwards one complete folder, old or
// new, and no rest.
TEST(AtomicFolder, killed_before_any_step_recovers_to_a_complete_folder) {
  for (const bool use_exchange : {true, false}) {
    for (const bool has_former : {true, false}) {
      std::vector<std::string> steps;
      {
        const TestFolder root;
        steps = steps_of(root / "last", use_exchange);
        if (has_former) steps = steps_of(root / "last", use_exchange);
      }
      ASSERT_GE(steps.size(), 5u);
      int new_count = 0;
      for (size_t kill_at = 0; kill_at < steps.size(); ++kill_at) {
        const TestFolder root;
        const std::string target = root / "last";
        if (has_former) commit(target, "old");
        const pid_t child = ::fork();
        if (child == 0) {
          size_t step = 0;
          commit(target, "new",
                 {.on_step =
                      [&](std::string_view) {
                        if (step++ == kill_at) ::kill(::getpid(), SIGKILL);
                      },
                  .use_exchange = use_exchange});
          ::_exit(0);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        ASSERT_TRUE(WIFSIGNALED(status)) << steps[kill_at];
        const bool is_there = recover_folder(target);
        EXPECT_EQ(is_there, is_complete(target));
        EXPECT_TRUE(is_there || !has_former) << "lost before step " << steps[kill_at];
        if (is_there) {
          const std::string text = read_all(target + "/weights", 100);
          EXPECT_TRUE(text == "new" || (has_former && text == "old")) << text;
          EXPECT_EQ(read_all(target + "/sub/state", 100), text);
          new_count += text == "new" ? 1 : 0;
          EXPECT_EQ(list_folder(root.path()), std::vector<std::string>{"last"});
        } else {
          EXPECT_EQ(list_folder(root.path()), std::vector<std::string>{});
        }
        commit(target, "later", {.use_exchange = use_exchange});  // and work goes on
        EXPECT_EQ(read_all(target + "/weights", 100), "later");
      }
      EXPECT_GE(new_count, 2);  // kills after the swap keep the new one
    }
  }
}

TEST(AtomicFolder, a_full_disk_leaves_the_former_folder) {
  const TestFolder root;
  const std::string target = root / "last";
  commit(target, "old");
  const pid_t child = ::fork();
  if (child == 0) {
    // A limit on file sizes stands for the full disk: the same short write, then an error.
    const rlimit limit{.rlim_cur = 1000, .rlim_max = 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, SIG_IGN);
    const std::string said = error_of([&] { commit(target, std::string(5000, 'x')); });
    const bool is_right = said.find("io: ") == 0 &&
                          said.find("/last.snug-new/weights] cannot write") != std::string::npos &&
                          said.find("(4000 bytes more are needed here)") != std::string::npos;
    ::_exit(is_right ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(is_complete(target));
  EXPECT_EQ(read_all(target + "/weights", 100), "old");
  EXPECT_EQ(list_folder(root.path()), std::vector<std::string>{"last"});
}

// States that a kill inside a rename pair, a removal or a recovery leaves, built by hand.
TEST(AtomicFolder, every_state_between_steps_recovers) {
  struct State {
    const char* target;  // text of a complete folder; "-": none; "~x": without marker
    const char* fresh;
    const char* former;
    const char* wanted;
  };
  const State states[] = {{"old", "new", "-", "old"},  {"new", "~old", "-", "new"},
                          {"-", "new", "old", "new"},  {"-", "~new", "old", "old"},
                          {"new", "-", "~old", "new"}, {"-", "new", "-", "new"},
                          {"-", "~new", "-", "-"},     {"-", "-", "~old", "-"}};
  for (const State& state : states) {
    const TestFolder root;
    const auto build = [&](const std::string& path, const std::string& text) {
      if (text == "-") return;
      commit(root / "made", text);
      if (text[0] == '~') remove_all(root / "made/.snug.complete");
      ASSERT_EQ(::rename((root / "made").c_str(), path.c_str()), 0);
    };
    build(root / "last", state.target);
    build(root / "last.snug-new", state.fresh);
    build(root / "last.snug-old", state.former);
    for (int again = 0; again < 2; ++again) {  // recovery itself may be repeated
      const bool is_there = recover_folder(root / "last");
      ASSERT_EQ(is_there, std::string(state.wanted) != "-");
      if (is_there) {
        EXPECT_EQ(read_all(root / "last/weights", 100), state.wanted);
      }
      EXPECT_EQ(list_folder(root.path()).size(), is_there ? 1u : 0u);
    }
  }
}

TEST(AtomicFolder, a_complete_folder_is_removed_also_behind_a_removal_that_was_cut_short) {
  const TestFolder root;
  commit(root / "last", "new");
  commit(root / "last.snug-old", "old");
  remove_complete_folder(root / "last");
  EXPECT_TRUE(list_folder(root.path()).empty());
}

TEST(AtomicFolder, recovery_leaves_strange_places_alone) {
  const TestFolder root;
  EXPECT_FALSE(recover_folder(root / "none"));
  make_folders(root / "mine");
  write_file(root / "mine/file", "x");
  EXPECT_FALSE(recover_folder(root / "mine"));
  EXPECT_TRUE(file_exists(root / "mine/file"));
}

}  // namespace
}  // namespace snug::io
