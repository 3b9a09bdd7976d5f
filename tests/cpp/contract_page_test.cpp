// docs/contract.md lists the constants that src/order has.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "../../tools/contract_constants.h"

namespace samebits::test {
namespace {

TEST(ContractPage, constants_are_those_of_the_code) {
  std::ifstream file(std::string(SAMEBITS_TEST_DATA) + "/../docs/contract.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string page = text.str(), table = tools::contract_constants();
  const std::string begin = "<!-- constants: printed by tools/print_contract.cpp -->\n\n",
                    end = "<!-- end -->";
  const auto from = page.find(begin);
  ASSERT_NE(from, std::string::npos);
  const auto to = page.find(end, from);
  ASSERT_NE(to, std::string::npos);
  EXPECT_EQ(page.substr(from + begin.size(), to - from - begin.size()), table);
}

}  // namespace
}  // namespace samebits::test
