// Runs the tests of one program in the folder of the sources. That folder's path is compiled in here and
// nowhere else: objects of tests are the same in every clone, so that a compiler cache serves them all.
#include <gtest/gtest.h>

#include <filesystem>

int main(int argc, char** argv) {
  std::filesystem::current_path(ULLAGE_SOURCE_DIR);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
