// Prints the table of constants of docs/contract.md. A test holds the page to it.
#include "contract_constants.h"

int main() { std::fputs(samebits::tools::contract_constants().c_str(), stdout); }
